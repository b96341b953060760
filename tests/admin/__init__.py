"""The pages of the admin: what they show, whom they let act, and what they cost."""
