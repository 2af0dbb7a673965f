"""Who somebody is: what a far side shows, how it is recognised, and what the policy then lets it do.

| file | |
|---|---|
| `proof`, `identity` | what a far side shows of itself; who it is |
| `tokens`, `token_file` | who has which token; the file that has their hashes |
| `admin_token` | the file with the admin's token, which is made at the first start |
| `jwts`, `jwt_keys` | who shows a JWT; the keys that sign these |
| `users` | everything by which somebody is recognised, read from files as a whole |
| `access` | the one place where a node asks who somebody is and what he may do |
| `refusal`, `failures` | why somebody is not recognised; how long he waits to be told that he is not |
| `files` | files that people write |
"""
