#!/bin/bash
# The health check: makes the replica set if there is none yet, and says whether
# it takes writes.
set -eu
exec mongosh --quiet --host 127.0.0.1 --username root --password "$(cat /run/secrets/mongodb_root_password)" --authenticationDatabase admin --eval '
	try { rs.status() } catch (e) {
		if (e.codeName != "NotYetInitialized") throw e;
		rs.initiate({ _id: "rs0", members: [{ _id: 0, host: "mongodb:27017" }] });
	}
	if (!db.hello().isWritablePrimary) quit(1);
'
