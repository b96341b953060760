"""The tags of the console's templates."""
