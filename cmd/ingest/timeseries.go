package main

// bucketsTimeSeries is the value of BUCKETS that leaves the buckets to MongoDB.
const bucketsTimeSeries = "timeseries"
