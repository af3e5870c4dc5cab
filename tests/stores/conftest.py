from neo4j_home import home  # noqa: F401 (a fixture)
