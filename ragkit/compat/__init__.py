"""Names that exist because a specification names them; everything else of ragkit works without this package."""
