// Measures a server of three ranks on this machine (mpirun, cluster three-hosts-ku060) when it is idle: the processor time
// of each rank while no frame comes, and by how much the first frame afterwards is late. LeNet-5 passes all three ranks.
//
//   node tests/bench/ranks.mjs [--millrace FILE] [--rounds N] [--partitions 1|3]
//
// Each round sends 200 requests, waits 1 s, measures the processor time of 5 s, and sends one request. "Late" is the time
// of that request beyond the median of the 200. With --partitions 1, the model has three replicas, one on each rank, and
// requests go to them in turn. Prints JSON. Goals: at most 2 % of a core, at most 2 ms late.
import {execFileSync, spawn} from 'node:child_process';
import {mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs';
import http from 'node:http';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {median, options} from './programs.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const given = options({millrace: path.join(root, 'build/release/bin/millrace'), rounds: 10, partitions: 3},
  'node tests/bench/ranks.mjs [--millrace FILE] [--rounds N] [--partitions 1|3]');
const kPixels = 784, kRequests = 200, kSettleMs = 1000, kIdleMs = 5000, kRanks = 3;
const cluster = path.join(root, 'configs/clusters/three-hosts-ku060.yaml');
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

const work = mkdtempSync(path.join(tmpdir(), 'millrace-ranks-'));
const deployment = path.join(work, 'd');
execFileSync(given.millrace, ['compile', path.join(root, 'tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx'), '--cluster', cluster,
  '--name', 'lenet', '--partitions', `${given.partitions}`, '--replicas', `${kRanks / given.partitions}`, '-o', deployment, '--quiet'],
  {stdio: 'ignore'});

const args = ['--allow-run-as-root', '--oversubscribe', '--bind-to', 'none', '--mca', 'btl', 'self,vader', '--mca', 'oob_tcp_if_include', 'lo'];
for (let rank = 0; rank < kRanks; ++rank)
  args.push(...(rank ? [':'] : []), '-n', '1', given.millrace, 'serve', '--cluster', cluster, '--deployment', deployment,
    '--http', '127.0.0.1:0', '--host-name', `host${rank}`, '--log-level', 'warning');
const job = spawn('mpirun', args, {stdio: ['ignore', 'pipe', 'inherit']});
const port = await new Promise((resolve, reject) => {
  let out = '';
  job.stdout.on('data', text => {
    const line = (out += text).match(/^listening http \S+:(\d+)$/m);
    if (line) resolve(Number(line[1]));
  });
  job.on('exit', code => reject(new Error(`mpirun ended with ${code}`)));
});

const agent = new http.Agent({keepAlive: true, maxSockets: 1});
const body = Buffer.alloc(kPixels * 4);
/** The time of one request in ms. */
const ask = () => new Promise((resolve, reject) => {
  const begin = process.hrtime.bigint();
  const request = http.request({port, agent, method: 'POST', path: '/v2/models/lenet/infer',
    headers: {'Inference-Header-Content-Length': 0, 'Content-Length': body.length}}, answer => {
    answer.resume();
    answer.on('end', () => answer.statusCode === 200 ? resolve(Number(process.hrtime.bigint() - begin) / 1e6)
      : reject(new Error(`status ${answer.statusCode}`)));
  });
  request.on('error', reject);
  request.end(body);
});

const field = (pid, index) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')[index];
const ranks = readdirSync('/proc').filter(name => /^\d+$/.test(name)).filter(pid => {
  try {
    return Number(field(pid, 1)) === job.pid && readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'millrace';
  } catch { return false; }
});
/** The processor time of a process's threads in ns. The counters in /proc/PID/stat would be too coarse. */
const used = pid => readdirSync(`/proc/${pid}/task`).reduce((sum, thread) =>
  sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]), 0);

const shares = [], late = [], usual = [];
for (let round = 0; round < given.rounds; ++round) {
  const times = [];
  for (let i = 0; i < kRequests; ++i) times.push(await ask());
  usual.push(median(times));
  await pause(kSettleMs);
  const before = ranks.map(used), begin = process.hrtime.bigint();
  await pause(kIdleMs);
  ranks.forEach((pid, i) => shares.push(100 * (used(pid) - before[i]) / Number(process.hrtime.bigint() - begin)));
  late.push(await ask() - usual.at(-1));
}
agent.destroy();
job.removeAllListeners('exit');
const ended = new Promise(resolve => job.on('exit', resolve));
process.kill(Number(ranks.find(pid => readFileSync(`/proc/${pid}/environ`, 'utf8').includes('OMPI_COMM_WORLD_RANK=0\0'))), 'SIGTERM');
const code = await ended;
rmSync(work, {recursive: true});
const good = Math.max(...shares) <= 2 && Math.max(...late) <= 2 && code === 0;
console.log(JSON.stringify({benchmark: 'ranks', partitions: given.partitions, rounds: given.rounds, request_ms: median(usual),
  idle_percent: {median: median(shares), max: Math.max(...shares)}, late_ms: {median: median(late), max: Math.max(...late)}, exit_code: code, good}));
process.exit(good ? 0 : 1);
