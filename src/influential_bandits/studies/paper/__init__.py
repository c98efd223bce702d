"""The paper's synthetic results, one file a study; `reproduce` finds every file here."""
