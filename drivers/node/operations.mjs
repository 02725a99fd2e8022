// What is counted, each on one connection.

const POINT = "SELECT id, k, c, pad FROM upshift_drivers WHERE id = ?";
const TEN = "SELECT id, k, c, pad FROM upshift_drivers WHERE id BETWEEN ? AND ?";
const ALL = "SELECT id, k, c, pad FROM upshift_drivers WHERE id <= ?";
const UPDATE = "UPDATE upshift_drivers SET k = k + ? WHERE id = ?";
const INSERT = "INSERT INTO upshift_drivers_added (k, c) VALUES (?, ?)";
const BATCH = Array.from({ length: 100 }, (_, row) => row);

export async function runOperation(connect, use, operation, count) {
  const connection = await connect();
  const operations = new Operations(connection, use);
  let rows = 0;
  for (let number = 0; number < count; number++) rows += await operations[operation](number);
  await connection.end();
  return rows;
}

class Operations {
  constructor(connection, use) {
    this.connection = connection;
    this.use = use;
  }

  // How applications run a statement: as text with the values put in by the driver, prepared, or with the values in its text.
  async run(sql, values) {
    if (this.use.statements === "inlined") {
      return (await this.connection.execute(this.connection.format(sql, values)))[0];
    }
    const call = this.use.statements === "execute" ? "execute" : "query";
    return (await this.connection[call](sql, values))[0];
  }

  async connect() {
    return 0;
  }

  async point_select(number) {
    return (await this.run(POINT, [(number % 1000) + 1])).length;
  }

  async ten_rows(number) {
    return (await this.run(TEN, [number + 1, number + 10])).length;
  }

  async fetch() {
    return (await this.run(ALL, [1000])).length;
  }

  async batch_insert() {
    if (this.use.batch === "joined") {
      await this.connection.query(INSERT.replace("(?, ?)", "?"), [BATCH.map((row) => [row, `row ${row}`])]);
    } else {
      for (const row of BATCH) await this.run(INSERT, [row, `row ${row}`]);
    }
    return 0;
  }

  async batch_update() {
    if (this.use.batch === "joined") {
      const values = BATCH.flatMap((row) => [1, row + 1]);
      await this.connection.query(BATCH.map(() => UPDATE).join("; "), values);
    } else {
      for (const row of BATCH) await this.run(UPDATE, [1, row + 1]);
    }
    return 0;
  }

  async transaction(number) {
    const id = (number % 1000) + 1;
    await this.connection.beginTransaction();
    const rows = await this.run(POINT, [id]);
    await this.run(UPDATE, [1, id]);
    await this.run(INSERT, [number, `row ${number}`]);
    await this.connection.commit();
    return rows.length;
  }
}
