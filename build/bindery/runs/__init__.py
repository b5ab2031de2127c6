"""Run companion tools: locally, on a cluster, and again for verification."""
