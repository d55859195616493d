/** A newcomer whose line is slow receives the state while the others train. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { EventOf } from '../../src/protocol/events.ts';
import type { Link } from '../../src/transport/link.ts';
import { wrap } from './membership/links.ts';
import { JOB, SessionWorld, tableOf, type Tab } from './sessionWorld.ts';
import type { Port } from './signalingWorld.ts';

/** A run without an end. Its state has about 245 kB, and a gradient a third of that. */
const RUN = { ...JOB, hidden: 4096, optimizer: 'adam' as const, batchSize: 1, maxSteps: 100_000, hashEvery: 10 };

/** A network in which the lines of some tabs carry a limited number of bytes in a millisecond. */
class SlowWorld extends SessionWorld {
  /** Bytes that the line of the next tab carries in a millisecond. */
  rate = Infinity;
  /** Milliseconds that each frame takes over the links that are opened from now on. */
  latencyMs = 0;
  files = tableOf();
  /** Links of the tab that was opened last. */
  #links: Link[] = [];

  override plug(): Port {
    const port = super.plug();
    const { connectPeer } = port;
    const [up, down] = [new Line(this, this.rate), new Line(this, this.rate)];
    const slow = (link: Link): Link => {
      const { latencyMs } = this;
      return wrap(link, {
        send: (frame) => up.carry(frame.byteLength, latencyMs).then(() => link.send(frame)),
        receive: (frame, handler) => void down.carry(frame.byteLength, 0).then(() => handler(frame)),
      });
    };
    this.#links = [];
    const links = this.#links;
    return {
      ...port,
      connectPeer: (options) => {
        const attempt = connectPeer(options);
        const link = attempt.link.then((open) => {
          links.push(open);
          return slow(open);
        });
        return { ...attempt, link };
      },
    };
  }

  override tab(name: string): Tab {
    return super.tab(name, this.files);
  }

  /** Lets up to two hours pass until `isSo` returns true. */
  async eventually(what: string, isSo: () => boolean): Promise<void> {
    for (let minute = 0; minute < 120 && !isSo(); minute++) await this.pass(60_000);
    await this.until(what, isSo);
  }

  /** Breaks the links of the tab that was opened last. */
  cut(): void {
    for (const link of this.#links.splice(0)) link.close();
  }
}

/** Carries frames one after the other. */
class Line {
  readonly #world: SessionWorld;
  readonly #rate: number;
  #freeAt = 0;

  constructor(world: SessionWorld, rate: number) {
    this.#world = world;
    this.#rate = rate;
  }

  carry(bytes: number, latencyMs: number): Promise<void> {
    const { clock } = this.#world;
    this.#freeAt = Math.max(this.#freeAt, clock.now()) + bytes / this.#rate;
    return new Promise((resolve) => clock.after(this.#freeAt - clock.now() + latencyMs, resolve));
  }
}

const received = (tab: Tab): EventOf<'warmup'>[] => tab.all('warmup').filter(({ stage }) => stage === 'receiving');

let world: SlowWorld;
beforeEach(() => {
  world = new SlowWorld();
});
afterEach(() => world.close());

/** A table with so many columns that the state of {@link RUN} has 1.1 MB. */
const WIDE = [
  new File(
    Array.from(
      { length: 9 },
      (_, row) => `${Array.from({ length: 20 }, (__, i) => (row ? i * row : `c${i}`)).join()},${row % 2 ? 'a' : 'b'}\n`,
    ),
    'wide.csv',
  ),
];

/** Lets two tabs train over a link with this latency, and then a tab with a slow line join. */
async function joined(latencyMs: number, rate: number): Promise<{ old: Tab[]; newcomer: Tab; stepMs: number }> {
  world.latencyMs = latencyMs;
  const old = await world.run(['Ada', 'Bo'], { job: RUN, steps: 2 });
  const [from, at] = [old[0]!.step, world.clock.now()];
  await world.pass(20_000);
  const stepMs = (world.clock.now() - at) / (old[0]!.step - from);
  world.latencyMs = 0;
  world.rate = rate;
  const newcomer = world.tab('Cy');
  newcomer.join(old[0]!.room);
  return { old, newcomer, stepMs };
}

/** Expects that `tabs` have compared their states, and that these are equal. */
async function expectOneState(tabs: readonly Tab[]): Promise<void> {
  const [one] = tabs as [Tab, ...Tab[]];
  const before = one.all('hashes').length;
  await world.until('states are compared', () => one.all('hashes').length > before);
  expect(one.last('hashes')).toMatchObject({ agree: true });
  expect(one.last('hashes')!.hashes).toHaveLength(tabs.length);
}

describe('a newcomer on a slow line', () => {
  test('receives updates of the run before it joins if its line is fast enough for them, and delays the other ranks by less than 6 s', async () => {
    const { old, newcomer, stepMs } = await joined(2_500, 40);
    const [from, at] = [old[0]!.step, world.clock.now()];
    await world.until('it joins', () => newcomer.step >= 0);
    // Less than the newcomer needs for a state.
    const lostMs = world.clock.now() - at - (old[0]!.step - from) * stepMs;
    expect(lostMs).toBeLessThan(6_000);
    expect(received(newcomer).length).toBeGreaterThan(3);
    expect(newcomer.last('note')).toBeUndefined();
    await expectOneState([...old, newcomer]);
  }, 60_000);

  test('joins after a wait if its line is too slow for the updates, and costs the other ranks under 7 % of their steps', async () => {
    world.files = WIDE;
    // To receive the state on entering, it needs more time than any deadline without progress.
    const { old, newcomer, stepMs } = await joined(2_500, 8);
    const [from, at] = [old[0]!.step, world.clock.now()];
    await world.eventually('it waits', () => received(newcomer).some(({ received: how }) => how!.waitsMs !== null));
    await world.pass(60_000);
    expect(newcomer.step).toBe(-1);
    await world.eventually('it joins', () => newcomer.step >= 0);
    const ms = world.clock.now() - at;
    expect(newcomer.all('note')).toEqual([
      expect.objectContaining({
        message: expect.stringMatching(/needs about 2 min for each gradient, and a step takes/) as string,
      }),
    ]);
    expect(((old[0]!.step - from) * stepMs) / ms).toBeGreaterThan(0.93);
    expect(old[0]!.all('generation').map(({ worldSize }) => worldSize)).toEqual([2, 3]);
    // The others see how far it is.
    const seen = old[0]!.all('distribution').map(({ bytesPerRank, total }) => bytesPerRank[2]! / total);
    expect(seen.filter((share) => share > 0.2 && share < 0.8).length).toBeGreaterThan(3);
    await world.eventually('states are compared', () => newcomer.all('hashes').length > 0);
    expect(newcomer.last('hashes')).toMatchObject({ agree: true, hashes: { length: 3 } });
  }, 180_000);

  test('is fed again after its links have broken, and the other ranks continue', async () => {
    const { old, newcomer } = await joined(100, 44);
    await world.until('it receives', () => received(newcomer).length > 1);
    world.cut();
    await world.until('it has received', () => received(newcomer).some(({ received: how }) => how!.waitsMs !== null));
    await world.pass(60_000);
    await world.until('it joins', () => newcomer.step >= 0);
    expect(old[0]!.all('generation').map(({ worldSize }) => worldSize)).toEqual([2, 3]);
    await expectOneState([...old, newcomer]);
  }, 60_000);
});
