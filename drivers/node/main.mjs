// DRIVER URL SETTINGS OPERATION COUNT: does the operation and prints one line of JSON about it.

import { readFileSync } from "node:fs";

import mysql from "mysql2/promise";

import { runCheck } from "./checks.mjs";
import { runOperation } from "./operations.mjs";

const [driver, url, settingsText, operation, count] = process.argv.slice(2);
const { options, use } = JSON.parse(settingsText);
const address = new URL(url);

const connect = () =>
  mysql.createConnection({
    host: address.hostname,
    port: Number(address.port),
    user: decodeURIComponent(address.username),
    password: decodeURIComponent(address.password),
    database: address.pathname.slice(1),
    ...options,
  });

// It warns of an option that it does not know; here that is an error.
const warn = console.error;
console.error = (...words) => {
  if (String(words[0]).includes("invalid configuration option")) throw new Error(words[0]);
  warn(...words);
};

const done = {
  driver,
  driver_version: JSON.parse(readFileSync(new URL("node_modules/mysql2/package.json", import.meta.url))).version,
  operation,
};
try {
  if (operation.startsWith("check_")) {
    await runCheck(connect, operation.slice("check_".length));
    done.ok = true;
  } else {
    done.rows = await runOperation(connect, use, operation, Number(count));
  }
} catch (error) {
  done.error = `${error.name}: ${error.message}`;
}
process.stdout.write(`${JSON.stringify(done)}\n`, () => process.exit(done.error ? 1 : 0));
