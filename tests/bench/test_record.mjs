// Tests which outputs record.mjs takes as measurements, and that README.md lists exactly the committed records.
import assert from 'node:assert';
import {spawnSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import test from 'node:test';
import {fileURLToPath} from 'node:url';
import {measurements, table} from './record.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));

test('lines of JSON, a whole document and the last line of libFuzzer are measurements', () => {
  assert.deepStrictEqual(measurements('{"phase": "drain"}\nnot JSON\n{"phase": "slow"}\n', ''), [{phase: 'drain'}, {phase: 'slow'}]);
  assert.deepStrictEqual(measurements('{\n "benchmark": "memory",\n "parts": [1, 2],\n "growth": 0.001\n}\n', ''), [{benchmark: 'memory', growth: 0.001}]);
  assert.deepStrictEqual(measurements('', 'INFO: seed\nDone 1234 runs in 61 second(s)\n'), [{runs: 1234, seconds: 61}]);
  assert.deepStrictEqual(measurements('7\nnull\n[1]\n', 'Done nothing'), []);
});

test('a run is appended with its command and exit code, which is passed on', () => {
  const directory = mkdtempSync(path.join(tmpdir(), 'millrace-record-'));
  try {
    const file = path.join(directory, 'records.json');
    const record = (...command) => spawnSync(process.execPath, [path.join(here, 'record.mjs'), ...command],
      {encoding: 'utf8', env: {...process.env, MILLRACE_RECORDS: file}});
    assert.strictEqual(record('sh', '-c', 'echo \'{"runs": 5, "seconds": 1}\'').status, 0);
    assert.strictEqual(record('sh', '-c', 'echo \'{"runs": 6, "seconds": 1}\'; exit 3').status, 3);
    assert.strictEqual(record('sh', '-c', 'echo nothing').status, 0);
    assert.strictEqual(record(path.join(directory, 'missing')).status, 2);
    const records = JSON.parse(readFileSync(file, 'utf8'));
    assert.deepStrictEqual(records.map(({exit_code, result}) => [exit_code, result.runs]), [[0, 5], [3, 6]]);
    for (const {date, commit, machine} of records) assert.ok(/^\d{4}-\d\d-\d\dT/.test(date) && commit && machine);
  } finally {
    rmSync(directory, {recursive: true});
  }
});

test('README.md has the committed records and no other', () => {
  const readme = readFileSync(path.join(here, 'README.md'), 'utf8');
  const rows = readme.split('\n').filter((line) => /^\| \d{4}-\d\d-\d\d \|/.test(line));
  assert.deepStrictEqual(rows, table(JSON.parse(readFileSync(path.join(here, 'records.json'), 'utf8'))));
});
