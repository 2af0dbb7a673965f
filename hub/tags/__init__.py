"""Labels of messages, and subscriptions by rule: who listens to A and who listens to B get one message, sent once.

| file | |
|---|---|
| `envelope` | the routing key of a TAGGED message: topic, labels, sender, destination |
| `rule` | what a subscriber asks for: labels, perhaps a prefix, perhaps a sender |
| `rules` | which rules match, at the cost of those that do |
| `subscriptions` | the rules of each handler |
| `remembered` | the tagged keys of the route cache, by what they could be forgotten for |
"""
