"""Device tables: mirrors of the tables on the devices, typed, one per project and source table.

placing     which mirror each change belongs to, by the records
compacting  few files of many
columns     which columns a mirror has, and of which type
writing     how rows get into a mirror, each run once: small ones whole, large ones by Spark
moving      devices that belong to another project now
newest      the newest changes, of a run or of whatever is asked about
taking_up   one run: from the changes of new drains to the mirrors they touch
"""
