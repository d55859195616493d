/** Tabs that must connect through a TURN server, which is Debian's coturn on this machine. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { runCli } from '../../../launcher/cli.ts';
import { NO_ICE } from '../../../signaling/ice.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { LineRelay } from '../../../tools/network/lineRelay.ts';
import { LINES } from '../../../tools/network/lines.ts';
import { findFirefox } from '../../../tools/firefox.ts';
import { TurnServer } from '../../../tools/network/turnServer.ts';
import { Firefox } from '../../firefox/firefox.ts';
import { World } from '../harness/world.ts';

vi.setConfig({ testTimeout: 90_000 });

const SECRET = 'a-secret-of-this-test';
const isInstalled = TurnServer.isInstalled();
if (!isInstalled) console.warn('The TURN tests are skipped. To run them on Debian: apt install coturn');

let server: TurnServer;
/** The lines of tabs; without limits at first. */
let lines: LineRelay;
let turn: string[];
let world: World;
beforeAll(async () => {
  if (!isInstalled) return;
  server = await TurnServer.start(SECRET);
  lines = await LineRelay.start({ turnPort: server.port, clock: systemClock, seed: 1 });
  turn = [`turn:127.0.0.1:${lines.port}`];
  world = await World.start({ ice: { ...NO_ICE, turn, turnSecret: SECRET, relayOnly: true } });
}, 120_000);
afterAll(async () => {
  if (!isInstalled) return;
  await world.stop();
  lines.close();
  await server.stop();
});

test.runIf(isInstalled)('two tabs train through the relay with a password from the signaling server', async () => {
  const room = world.createRoom({ maxSteps: 3, batchSize: 4 }, 2);
  const tabs = await Promise.all(['ann', 'ben'].map((name) => world.join(room, name)));
  for (const tab of tabs) expect(await tab.event('link')).toMatchObject({ up: true, route: 'relayed' });
  const results = await Promise.all(tabs.map(async (tab) => (await tab.event('finished')).result));
  expect(new Set(results.flatMap(({ stateHash }) => stateHash)).size).toBe(1);
});

/** Resolves with the connections of the links in the first telemetry for which `isSo` is true. */
async function connectionsOf(isSo: (connections: readonly number[]) => boolean): Promise<number[]> {
  const room = world.createRoom({ epochs: 1000, batchSize: 4, hidden: 8, hashEvery: 2 }, 2);
  const tabs = await Promise.all(['ann', 'ben'].map((name) => world.join(room, name)));
  const found: number[] = [];
  for (const tab of tabs) {
    await tab.event('telemetry', ({ ranks }) => {
      const connections = ranks.flatMap(({ right }) => right?.connections ?? []);
      if (connections.length < ranks.length || !isSo(connections)) return false;
      found.push(...connections);
      return true;
    });
  }
  await world.reset();
  return found;
}

test.runIf(isInstalled)('two distant tabs distribute frames over four connections, two near tabs use one', async () => {
  // On a busy machine, all round trips of a near link may take long. Then another room is tried.
  let near = [0];
  for (let room = 0; room < 3 && near.some((count) => count !== 1); room++) near = await connectionsOf(() => true);
  expect(near).toEqual([1, 1, 1, 1]);
  lines.setLines(LINES.home);
  expect(await connectionsOf((connections) => connections.every((count) => count === 4))).toEqual([4, 4, 4, 4]);
  lines.setLines(null);
});

test.runIf(isInstalled && findFirefox() !== null)('a distant Firefox tab also uses four connections', async () => {
  lines.setLines(LINES.home);
  const room = world.createRoom({ epochs: 1000, batchSize: 4, hidden: 8, hashEvery: 2 }, 2);
  const firefox = await Firefox.start();
  const tabs = await Promise.all([
    firefox.open(`${world.server.url}/#${room}?name=fox&auto`),
    world.join(room, 'chromium'),
  ]);
  for (const tab of tabs) {
    const { ranks } = await tab.event('telemetry', (event) =>
      event.ranks.every(({ right }) => right?.connections === 4),
    );
    expect(ranks).toHaveLength(2);
  }
  await firefox.close();
  lines.setLines(null);
});

test.runIf(isInstalled)('tabs of `peergrad run --relay-only` use the relay', async () => {
  const before = server.allocations;
  const { signal } = new AbortController();
  const err: string[] = [];
  const io = { out: () => {}, err: (line: string) => void err.push(line), terminal: null, signal };
  const job = 'run --tabs 2 --steps 2 --batch 4 --hidden 8 --backend wasm';
  const code = await runCli([...job.split(' '), '--turn', turn[0]!, '--turn-secret', SECRET, '--relay-only'], io, {});
  expect(code, err.join('\n')).toBe(0);
  expect(server.allocations).toBeGreaterThan(before);
});
