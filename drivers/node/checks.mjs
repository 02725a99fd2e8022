// What a driver must be able to do through a proxy. Each throws what went wrong.

import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

export async function runCheck(connect, name) {
  const check = checks[name];
  if (!check) throw new Error(`no check is called ${name}`);
  await check(connect);
}

const checks = {
  connect: (connect) => using(connect, one),

  // Its options ask for TLS.
  async tls_refused(connect) {
    try {
      await using(connect, one);
    } catch (error) {
      require(error.code === "HANDSHAKE_NO_SSL_SUPPORT", error.message);
      return;
    }
    throw new Error("it connected without TLS, which it was to require");
  },

  prepared: (connect) =>
    using(connect, async (connection) => {
      const data = Buffer.from([0, 1, 255, 39, 92]);
      const sql = "SELECT id, ? AS t, ? AS n, ? AS b, ? AS nothing FROM upshift_drivers WHERE id = ?";
      for (let id = 1; id <= 20; id++) {
        const [[row]] = await connection.execute(sql, ["Grüße 'n \\ ?", 12.5, data, null, id]);
        const right =
          row.id === id && row.t === "Grüße 'n \\ ?" && Number(row.n) === 12.5 && data.equals(Buffer.from(row.b));
        require(right && row.nothing === null, `other values came back: ${JSON.stringify(row)}`);
      }
    }),

  batch: (connect) =>
    using(connect, async (connection) => {
      const rows = Array.from({ length: 10 }, (_, row) => [row, "batch"]);
      const [done] = await connection.query("INSERT INTO upshift_drivers_added (k, c) VALUES ?", [rows]);
      require(done.affectedRows === 10, "not ten rows");
    }),

  error: (connect) =>
    using(connect, async (connection) => {
      try {
        await connection.execute("SELECT nothing FROM nowhere");
        throw new Error("no error");
      } catch (error) {
        require(error.errno === 1146, error.message);
      }
      await one(connection);
    }),

  async reconnect(connect) {
    const connection = await connect();
    connection.on("error", () => {});
    await using(connect, (other) => other.query(`KILL ${connection.threadId}`));
    await sleep(200);
    let failed = false;
    try {
      await one(connection);
    } catch {
      failed = true;
    }
    require(failed, "the connection was not killed");
    await using(connect, one);
  },

  local_infile: (connect) =>
    using(connect, async (connection) => {
      const [done] = await connection.query({
        sql: "LOAD DATA LOCAL INFILE 'rows' INTO TABLE upshift_drivers_added (k, c)",
        infileStreamFactory: () => Readable.from([Buffer.from("1\tone\n2\ttwo\n3\tthree\n")]),
      });
      require(done.affectedRows === 3, "not three rows");
    }),
};

async function using(connect, what) {
  const connection = await connect();
  try {
    await what(connection);
  } finally {
    await connection.end();
  }
}

async function one(connection) {
  const [[row]] = await connection.query("SELECT 1 AS one");
  require(row.one === 1, "SELECT 1 is not 1");
}

function require(right, otherwise) {
  if (!right) throw new Error(otherwise);
}
