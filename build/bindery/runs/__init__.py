"""Running companion tools: here, on a cluster, again."""
