// Tests summary.mjs on hand-made results: a missed goal is named and gives exit code 1.
import assert from 'node:assert';
import {spawnSync} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import test from 'node:test';
import {fileURLToPath} from 'node:url';

const script = path.join(path.dirname(fileURLToPath(import.meta.url)), 'summary.mjs');

function summary(files) {
  const directory = mkdtempSync(path.join(tmpdir(), 'millrace-summary-'));
  try {
    for (const [name, content] of Object.entries(files)) writeFileSync(path.join(directory, name), typeof content === 'string' ? content : JSON.stringify(content));
    return spawnSync(process.execPath, [script, directory], {encoding: 'utf8'});
  } finally {
    rmSync(directory, {recursive: true});
  }
}

const emulator = worst => ({
  one_core: {xrt_to_socketpair: {median: 0.9}}, two_cores: {xrt_to_socketpair: {median: 1.0}},
  killed_card: {error_us: 200, error_worst_us: worst},
});
const pipeline = (added, worst) => ({benchmarks: ['one_core', 'two_cores'].map(place => ({
  aggregate_name: 'median', run_name: `lenet5_frame/${place}/iterations:1`, added_round_trips: added, worst_round_trips: worst}))});
const missed = result => result.stdout.split('\n').filter(line => line.endsWith('MISSED'));

test('results within their goals hold', () => {
  const result = summary({'emulator.json': emulator(9_999), 'pipeline.json': pipeline(0.9, 1.6)});
  assert.equal(result.status, 0, result.stdout + result.stderr);
  assert.deepEqual(missed(result), []);
});

test('a killed card that is noticed after more than 10 ms misses the goal', () => {
  const result = summary({'emulator.json': emulator(10_001)});
  assert.equal(result.status, 1);
  assert.equal(missed(result).length, 1);
  assert.match(missed(result)[0], /killed card/);
});

test('a stream over MPI misses its goal only if the waiting thread polls it', () => {
  const row = (way, ratio) => `${JSON.stringify({benchmark: 'mpi', way, bytes: 4096, ratio})}\n`;
  assert.equal(summary({'mpi.jsonl': row('polled', 1.1) + row('session', 3)}).status, 0);
  const result = summary({'mpi.jsonl': row('polled', 1.3) + row('session', 1)});
  assert.equal(result.status, 1);
  assert.match(missed(result)[0], /polled, 4096 bytes/);
});

test('one card that adds more than two round trips misses the goal whatever the mean is', () => {
  const result = summary({'pipeline.json': pipeline(1.2, 2.1)});
  assert.equal(result.status, 1);
  assert.equal(missed(result).length, 2, result.stdout);
});
