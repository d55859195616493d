/** Tabs that must connect through a TURN server, which is Debian's coturn on this machine. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { runCli } from '../../launcher/cli.ts';
import { startSignaling } from '../../signaling/index.ts';
import { NO_ICE } from '../../signaling/ice.ts';
import { deferred } from '../../src/util/deferred.ts';
import { World } from './world.ts';

vi.setConfig({ testTimeout: 90_000 });

const COTURN = 'turnserver';
const SECRET = 'a-secret-of-this-test';
const isInstalled = spawnSync('which', [COTURN]).status === 0;
if (!isInstalled)
  console.warn(`The TURN tests are skipped because ${COTURN} is not installed. On Debian, run: apt install coturn`);

/** Output of coturn. */
let output = '';

/** Number of relayed addresses that coturn has allocated. */
const allocated = (): number => output.split('ALLOCATE processed, success').length - 1;

/** Starts coturn on the loopback interface. Resolves when coturn accepts connections. */
async function startCoturn(folder: string, port: number): Promise<ChildProcess> {
  const options = [
    ...['-n', '--listening-ip=127.0.0.1', '--relay-ip=127.0.0.1', '--allow-loopback-peers', `--listening-port=${port}`],
    ...['--use-auth-secret', `--static-auth-secret=${SECRET}`, '--realm=peergrad', '--fingerprint'],
    ...['--no-cli', '--no-tls', '--no-dtls', '--log-file=stdout', '--simple-log', '--verbose'],
    ...[`--pidfile=${path.join(folder, 'pid')}`, `--userdb=${path.join(folder, 'users')}`],
  ];
  const coturn = spawn(COTURN, options, { stdio: ['ignore', 'pipe', 'inherit'] });
  const listening = deferred();
  coturn.stdout.on('data', (data: Buffer) => {
    output += data.toString();
    if (/UDP listener opened/.test(output)) listening.resolve();
  });
  coturn.once('exit', () => listening.reject(new Error(`${COTURN} has ended. Its output: ${output}`)));
  await listening.promise;
  return coturn;
}

let folder: string;
let turn: string[];
let coturn: ChildProcess;
let world: World;
beforeAll(async () => {
  if (!isInstalled) return;
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-turn-'));
  const brief = await startSignaling({ logLevel: 'silent' });
  await brief.close();
  coturn = await startCoturn(folder, brief.port);
  turn = [`turn:127.0.0.1:${brief.port}`];
  world = await World.start({ ice: { ...NO_ICE, turn, turnSecret: SECRET, relayOnly: true } });
}, 120_000);
afterAll(async () => {
  if (!isInstalled) return;
  await world.stop();
  coturn.kill();
  if (coturn.exitCode === null) await once(coturn, 'exit');
  await rm(folder, { recursive: true });
});

test.runIf(isInstalled)('two tabs train through the relay with a password from the signaling server', async () => {
  const room = world.createRoom({ maxSteps: 3, batchSize: 4 }, 2);
  const tabs = await Promise.all(['ann', 'ben'].map((name) => world.join(room, name)));
  for (const tab of tabs) expect(await tab.event('link')).toMatchObject({ up: true, route: 'relayed' });
  const results = await Promise.all(tabs.map(async (tab) => (await tab.event('finished')).result));
  expect(new Set(results.flatMap(({ stateHash }) => stateHash)).size).toBe(1);
});

test.runIf(isInstalled)('tabs of `peergrad run --relay-only` use the relay', async () => {
  const before = allocated();
  const { signal } = new AbortController();
  const err: string[] = [];
  const io = { out: () => {}, err: (line: string) => void err.push(line), terminal: null, signal };
  const job = 'run --tabs 2 --steps 2 --batch 4 --hidden 8 --backend wasm';
  const code = await runCli([...job.split(' '), '--turn', turn[0]!, '--turn-secret', SECRET, '--relay-only'], io, {});
  expect(code, err.join('\n')).toBe(0);
  expect(allocated()).toBeGreaterThan(before);
});
