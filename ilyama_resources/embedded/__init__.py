"""Servers as child processes: started by their first user, stopped after their last.

A user holds a *shared* lock on the part's `.users` file for as long as it uses the server. Whoever
finds no server running spawns a *keeper*: a detached process that starts the server and then waits
for the *exclusive* lock on that file. The kernel grants it when no user is left, however the users
ended, and the keeper stops the server. So a killed user never leaves a server behind, and a server
never disappears under a living user.
"""
