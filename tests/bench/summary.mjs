// Reads the JSON files that tools/bench wrote and prints every goal beside the measured figure. Exit code 1 if a goal is missed.
import {existsSync, readFileSync} from 'node:fs';
import path from 'node:path';

const directory = process.argv[2];
const read = name => {
  const file = path.join(directory, name);
  return existsSync(file) && readFileSync(file, 'utf8').trim() ? JSON.parse(readFileSync(file, 'utf8')) : null;
};

const lines = name => {
  const file = path.join(directory, name);
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean).map(line => JSON.parse(line)) : [];
};

const rows = [];
const add = (what, value, goal) => rows.push({what, value, goal, holds: value <= goal});
const atLeast = (what, value, goal) => rows.push({what, value, goal, least: true, holds: value >= goal});

const emulator = read('emulator.json');
if (emulator) {
  for (const place of ['one_core', 'two_cores']) {
    add(`XRT start+wait / socketpair round trip, ${place.replace('_', ' ')}`, emulator[place].xrt_to_socketpair.median, 1.8);
  }
  add('A killed card, worst time until the waiting call fails, ms', emulator.killed_card.error_worst_us / 1000, 10);
}
const pipeline = read('pipeline.json');
if (pipeline) {
  for (const run of pipeline.benchmarks.filter(b => b.aggregate_name === 'median')) {
    const place = run.run_name.split('/')[1].replace('_', ' ');
    add(`LeNet-5, added a card / socketpair round trip, ${place}`, run.added_round_trips, 2);
    add(`LeNet-5, the dearer of the second and third card / the same, ${place}`, run.worst_round_trips, 2);
  }
}
const http = read('http.json');
for (const row of http?.results ?? []) {
  const what = `HTTP, null pipeline / Beast echo, ${row.placement}, ${row.connections} connection${row.connections > 1 ? 's' : ''}`;
  if (row.connections === 1) {
    add(`${what}, p50`, row.ratio.p50, 1.25);
    add(`${what}, p99`, row.ratio.p99, 1.5);
  } else {
    atLeast(`${what}, requests/s`, row.ratio.requests_per_second, 0.8);
  }
}
for (const row of read('http_card.json')?.results ?? [])
  add(`HTTP, identity - null - the card's own time, us, ${row.placement}`, Math.abs(row.off_us), 10);
for (const row of read('node_http.json')?.results ?? []) {
  const what = `LeNet-5 over HTTP / Node and ONNX Runtime, ${row.placement}, ${row.connections} connection${row.connections > 1 ? 's' : ''}`;
  add(`${what}, p50`, row.ratio.p50, 1);
  atLeast(`${what}, requests/s`, row.ratio.requests_per_second, 1);
}
for (const row of read('udp.json')?.results ?? []) {
  const name = row.fragments === 1 ? 'one fragment' : `${row.fragments} fragments`;
  add(`UDP / bare datagrams, ${row.placement}, ${name}, p50`, row.ratio_p50, row.fragments === 1 ? 1.3 : 2);
}
for (const row of lines('mpi.jsonl')) {
  const what = `MPI stream / MPI_Send and MPI_Recv, ${row.way}, ${row.bytes} bytes`;
  if (row.way === 'polled') add(what, row.ratio, 1.2);
  else rows.push({what, value: row.ratio});
}
const explored = lines('explore.jsonl');
for (const row of explored) {
  for (const [kind, value] of [['wall', row.all_wall_ms ?? Infinity], ['CPU', row.all_cpu_ms ?? Infinity]]) {
    const what = `Exploration, ${row.model}, ${kind} ms`;
    if (row.goal_ms === null) rows.push({what, value, holds: value < Infinity});
    else add(what, value, row.goal_ms ?? 0);
  }
}
if (explored.length) add('Exploration, memory at its peak, MB', Math.max(...explored.map(row => (row.peak_mib ?? 0) * 1.048576)), 500);
const kernels = read('onnxruntime.json');
if (kernels) {
  for (const net of kernels.nets.filter(n => ['lenet5', 'ptt', 'mpcnn'].includes(n.name ?? n.net))) {
    for (const [variant, levels] of Object.entries(net.variants)) {
      if (levels.avx512vnni) add(`${net.name ?? net.net} ${variant}, kernels/fast / ONNX Runtime float32`, levels.avx512vnni.ratio, 0.5);
      if (levels.avx2) rows.push({what: `${net.name ?? net.net} ${variant}, same with AVX2`, value: levels.avx2.ratio});
    }
  }
}

const width = Math.max(...rows.map(row => row.what.length));
for (const {what, value, goal, least, holds} of rows) {
  const verdict = goal === undefined ? '' : `  ${least ? '>=' : '<='} ${goal}  ${holds ? 'holds' : 'MISSED'}`;
  console.log(`${what.padEnd(width)}  ${value.toFixed(2).padStart(7)}${verdict}`);
}
process.exit(rows.some(row => row.goal !== undefined && !row.holds) ? 1 : 0);
