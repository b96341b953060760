"""Real workers on the test database: started, watched, stopped and killed."""
