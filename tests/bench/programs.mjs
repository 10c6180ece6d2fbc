// Starts servers that are pinned to processors, and measures them with `millrace bench`.
import {execFile, spawn} from 'node:child_process';
import {promisify} from 'node:util';

const run = promisify(execFile);

/** Starts a server on these processors; its URL once it says where it listens. */
export async function serve(cpus, command, args) {
  const child = spawn('taskset', ['-c', cpus, command, ...args], {stdio: ['pipe', 'pipe', 'pipe']});
  let said = '';
  child.stderr.on('data', (text) => { said += text; });
  const url = await new Promise((resolve, reject) => {
    let out = '';
    child.stdout.on('data', (text) => {
      const line = (out += text).match(/^listening http (\S+)$/m);
      if (line) resolve(`http://${line[1]}`);
    });
    child.on('exit', (code) => reject(new Error(`${command} ended with ${code}: ${said}`)));
    child.on('error', reject);
  });
  const stop = () => new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve(child.exitCode);
    child.removeAllListeners('exit').on('exit', resolve);
    child.stdin.end();
    child.kill('SIGTERM');
  });
  return {url, pid: child.pid, stop};
}

/** One run of `millrace bench --json` on these processors. */
export async function bench(cpus, millrace, args) {
  const {stdout} = await run('taskset', ['-c', cpus, millrace, 'bench', '--json', '--quiet', ...args], {maxBuffer: 1 << 26});
  return JSON.parse(stdout);
}

export const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** --name value pairs, over defaults; exits with 2 for what is not known. */
export function options(defaults, usage) {
  const given = {...defaults};
  const argv = process.argv.slice(2);
  for (let i = 0; i < argv.length; i += 2) {
    if (argv[i] === '--help') {
      console.log(usage);
      process.exit(0);
    }
    const key = argv[i].replace(/^--/, '').replaceAll('-', '_');
    if (!(key in defaults) || i + 1 === argv.length) {
      console.error(`unknown option ${argv[i]}, or no value\n${usage}`);
      process.exit(2);
    }
    given[key] = typeof defaults[key] === 'number' ? Number(argv[i + 1]) : argv[i + 1];
    if (Number.isNaN(given[key])) {
      console.error(`${argv[i]} ${argv[i + 1]}: a number is needed\n${usage}`);
      process.exit(2);
    }
  }
  return given;
}
