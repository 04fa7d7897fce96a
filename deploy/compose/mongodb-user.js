// Run once, when the database is made: the user that gudang is, with no more
// rights than it needs.
db.getSiblingDB("gudang").createUser({
  user: "gudang",
  pwd: require("fs").readFileSync("/run/secrets/mongodb_password", "utf8").trim(),
  roles: [{ role: "readWrite", db: "gudang" }],
});
