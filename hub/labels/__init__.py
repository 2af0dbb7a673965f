"""Labels of messages, and subscriptions by rule."""
