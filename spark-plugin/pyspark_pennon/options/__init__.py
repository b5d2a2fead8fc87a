"""Options of the data source, of the feed and of stores: names, parsing, errors."""
