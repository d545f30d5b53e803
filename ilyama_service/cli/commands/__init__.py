"""What a person types: the words of every command, whose work is imported when it is called.

Commands start in an instant; so nothing here imports a database or Dagster on top.
"""
