"""mien behind the names that users of other face libraries know."""
