// Records the results of long runs, each with its command, date, machine and commit.
//
//   node tests/bench/record.mjs COMMAND [ARGUMENT…]   runs the command from the current folder and appends its
//                                                     measurements to records.json; returns its exit code
//   node tests/bench/record.mjs                       prints the records as the table of README.md
//
// Three outputs count as measurements: a line of JSON on standard output (tools/swap-soak, bench_pace), a standard output that is JSON as a whole
// (memory.mjs), and libFuzzer's last line on standard error ("Done N runs in S second(s)"). A command without a measurement is not
// recorded. The environment variable MILLRACE_RECORDS replaces records.json. Exit code 2 if the command could not be started.
import {execFileSync, spawn} from 'node:child_process';
import {readFileSync, renameSync, writeFileSync} from 'node:fs';
import {cpus} from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const kFile = process.env.MILLRACE_RECORDS ?? path.join(here, 'records.json');

/** Every measurement in what a command wrote. */
export function measurements(out, err) {
  const parsed = (text) => { try { return JSON.parse(text); } catch { return null; } };
  const is_object = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
  const whole = parsed(out);
  const found = is_object(whole) ? [whole] : out.split('\n').map(parsed).filter(is_object);
  const fuzzed = [...err.matchAll(/^Done (\d+) runs in (\d+) second\(s\)$/gm)].at(-1);
  if (fuzzed) found.push({runs: Number(fuzzed[1]), seconds: Number(fuzzed[2])});
  return found.map(({parts, ...rest}) => rest);  // drop memory.mjs's figures after each twentieth of the requests
}

const kMillion = 1e6;
const count = (n) => n >= kMillion ? `${(n / kMillion).toFixed(1)} million` : n.toLocaleString('en-US');

/** What a record says, in words; null where no words are known for it. */
function words({result}) {
  if (result.phase !== undefined) {
    const memory = result.memory_after_500_to_50;
    return `${result.phase}, ${result.minutes} minutes: ${count(result.sent)} requests, ${result.swaps} swaps; ` +
      `${result.failed} failed, ${result.wrong} wrong; p99 during swaps ${Math.round(result.latency_during_swaps_ms?.p99 ?? 0)} ms` +
      (memory == null ? '' : `; memory after 500 swaps over that after 50: ${memory.toFixed(4)}`);
  }
  if (result.benchmark === 'memory') return `server memory over the requests: ${result.growth >= 0 ? '+' : ''}${(100 * result.growth).toFixed(2)} %`;
  if (result.benchmark === 'pace') {
    const ratios = Object.entries(result).filter(([key]) => key.includes('_to_')).map(([key, value]) => `${key.replaceAll('_', ' ')} ${value.toFixed(3)}`);
    return `load ${result.load}, pace ${Math.round(result.pace)}: ${ratios.join(', ')}; processor ${(100 * result.processor).toFixed(0)} %`;
  }
  if (result.runs !== undefined) return `${count(result.runs)} inputs in ${result.seconds} s`;
  return null;
}

/** A row of README.md for each record that can be put in words. */
export function table(records) {
  return records.filter((record) => words(record) !== null).map((record) =>
    `| ${record.date.slice(0, 10)} | ${record.commit} | \`${record.command}\` | ${words(record)}${record.exit_code === 0 ? '' : `; exit code ${record.exit_code}`} |`);
}

const read = () => { try { return JSON.parse(readFileSync(kFile, 'utf8')); } catch (error) { if (error.code === 'ENOENT') return []; throw error; } };

/** "abc1234", with "+" if the checkout has changes; "unknown" outside a checkout. */
function commit() {
  const git = (...args) => execFileSync('git', ['-C', here, ...args], {encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore']}).trim();
  try {
    return git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '--untracked-files=no') ? '+' : '');
  } catch {
    return 'unknown';
  }
}

async function run(command) {
  const child = spawn(command[0], command.slice(1), {stdio: ['inherit', 'pipe', 'pipe']});
  let out = '', err = '';
  child.stdout.on('data', (text) => { out += text; process.stdout.write(text); });
  child.stderr.on('data', (text) => { err = (err + text).slice(-(1 << 20)); process.stderr.write(text); });
  const code = await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status) => resolve(status ?? 1));
  });
  return {code, found: measurements(out, err)};
}

async function main(command) {
  if (command.length === 0) {
    console.log(table(read()).join('\n'));
    return 0;
  }
  const start = {date: new Date().toISOString().slice(0, 19) + 'Z', commit: commit(),
    machine: `${cpus().length} × ${cpus()[0].model}`, command: command.join(' ')};
  let done;
  try {
    done = await run(command);
  } catch (error) {
    console.error(`record.mjs: ${command[0]} could not be started: ${error.message}`);
    return 2;
  }
  const records = read().concat(done.found.map((result) => ({...start, exit_code: done.code, result})));
  writeFileSync(`${kFile}.new`, `[\n${records.map((record) => JSON.stringify(record)).join(',\n')}\n]\n`);
  renameSync(`${kFile}.new`, kFile);
  console.error(done.found.length === 0 ? 'record.mjs: the command gave no measurement; nothing is recorded'
    : `record.mjs: ${done.found.length} recorded in ${kFile}; write the table of tests/bench/README.md anew: node tests/bench/record.mjs`);
  return done.code;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main(process.argv.slice(2));
