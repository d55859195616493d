/** The debug log: its scopes, its lines, and how a worker receives the patterns of its page. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { startEngine } from '../../src/engine/page.ts';
import { nextMembership, describeMembershipStep, INITIAL_MEMBERSHIP } from '../../src/engine/membership/membership.ts';
import { runWorld } from '../../src/testing/index.ts';
import { createDebugLog, setDebugPatterns } from '../../src/util/debugLog.ts';
import { rankZeroOfTwo } from '../collectives/faultyRanks.ts';
import { errorOf } from '../errorOf.ts';
import { ManualClock } from '../manualClock.ts';
import { LONG, SessionWorld, type Tab } from '../engine/sessionWorld.ts';

let written: string[];

beforeEach(() => {
  written = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    written.push(String(text).trim());
    return true;
  });
});
afterEach(() => {
  setDebugPatterns('');
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

/** The lines of a scope, without the time in front of them. */
const linesOf = (scope: string): string[] =>
  written.flatMap((line) => (line.includes(`peergrad:${scope} `) ? line.split(`peergrad:${scope} `).slice(1) : []));

describe('a scope', () => {
  test('that is off does not create its lines', () => {
    const line = vi.fn(() => 'text');
    createDebugLog('links')(line);
    expect(line).not.toHaveBeenCalled();
    expect(written).toEqual([]);
  });

  test.each([
    ['peergrad:*', ['links', 'recovery']],
    ['peergrad:*,-peergrad:links', ['recovery']],
    ['peergrad:links', ['links']],
    ['other:*', []],
  ])('is on as the patterns of the package debug say: %s', (patterns, on) => {
    setDebugPatterns(patterns);
    expect((['links', 'recovery'] as const).filter((scope) => createDebugLog(scope).isOn())).toEqual(on);
  });

  test('writes percent signs as they are', () => {
    setDebugPatterns('peergrad:links');
    createDebugLog('links')(() => '100 %d of 5 %');
    expect(linesOf('links')).toEqual(['100 %d of 5 %']);
  });
});

describe('the lines', () => {
  test('of an all-reduce name rank, op, number, bytes and time', async () => {
    setDebugPatterns('peergrad:*,-peergrad:links');
    await runWorld(2, async (group) => void (await group.allReduce(Float32Array.of(1, 2, 3, 4))), {
      clock: { now: () => 5, after: () => () => {} },
    });
    const group = 'Rank 0, generation 1, group 0';
    expect(linesOf('collectives').filter((line) => line.startsWith('Rank 0'))).toEqual([
      `${group} begins with ranks 0, 1.`,
      `${group}: #0 allReduce(4 float32, SUM) is issued.`,
      `${group}: #0 allReduce(4 float32, SUM) is done after 0.0 ms; 80 bytes sent (ring).`,
      `${group} ends with 0 ops in flight: Rank 0 has left this process group. Create a new group.`,
    ]);
    expect(linesOf('links')).toEqual([]);
  });

  test('of a late all-reduce name the ranks that are missing, and since when', async () => {
    setDebugPatterns('peergrad:collectives');
    const clock = new ManualClock();
    const { group } = rankZeroOfTwo({ clock, timeoutMs: 200 });
    const work = group.allReduce(Float32Array.of(1));
    clock.advance(200);
    expect(linesOf('collectives').at(-1)).toBe(
      'Rank 0, generation 1, group 0: #0 allReduce(1 float32, SUM), issued 200 ms ago, makes no progress; it waits for ranks 1.',
    );
    clock.advance(200);
    await errorOf(work);
  });

  test('of links name the first frame of each link', async () => {
    setDebugPatterns('peergrad:links');
    await runWorld(2, async (group) => {
      await group.barrier();
      await group.barrier();
    });
    expect(linesOf('links').toSorted()).toEqual([
      'Rank 0, generation 1: rank 1 sent its first frame.',
      'Rank 1, generation 1: rank 0 sent its first frame.',
    ]);
  });
});

test('a tab that leaves a run is followed through all scopes', async () => {
  const world = new SessionWorld();
  try {
    const [ada, bo] = (await world.run(['Ada', 'Bo', 'Cy'], { job: LONG, steps: 4 })) as [Tab, Tab];
    setDebugPatterns('peergrad:*');
    bo.command({ type: 'leave' });
    const { generation } = ada.last('state')!;
    await world.until('the others train again', () => ada.last('state')!.generation > generation);
    await world.stepped([ada], ada.step + 3);
    const member = `Member ${ada.member}, generation 2`;
    const members = ada.last('generation')!.members.map((entry) => entry.member);
    expect(linesOf('membership')).toEqual(
      expect.arrayContaining([
        `Member ${bo.member} sends leave.`,
        `${member}: prepare, RUNNING(1) -> LINKING(2); effects: drop, link.`,
        `${member}: sync, LINKING(2) -> SYNCING(2); effects: enter.`,
        `Member ${ada.member} receives go.`,
        `Member ${ada.member} receives prepare: generation 2 of ${members.join(', ')}.`,
        `Member ${ada.member} receives room: LINKING, generation 2, 2 members.`,
      ]),
    );
    expect(linesOf('links')).toEqual(
      expect.arrayContaining([
        'Rank 0, generation 1, closes 2 links: Generation 2 began.',
        expect.stringMatching(/^Link of rank 0 to rank 1 .*, generation 2, is open; route memory/),
      ]),
    );
    expect(linesOf('recovery')).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^Rank 0, generation 2, elects step \d+ \(\w{8}\) of ranks 0, 1; steps by rank: /),
        expect.stringMatching(/^Rank 0, generation 2, commits step \d+\.$/),
      ]),
    );
  } finally {
    world.close();
  }
});

/** A worker that stores what its page sends. */
class FakeWorker extends EventTarget {
  static received: unknown[] = [];
  postMessage(message: unknown): void {
    FakeWorker.received.push(message);
  }
  terminate(): void {}
}

const store = (debug: string | null): void =>
  void vi.stubGlobal('localStorage', { getItem: (key: string) => (key === 'debug' ? debug : null) });

describe('a page', () => {
  let page: EventTarget;
  beforeEach(() => {
    FakeWorker.received = [];
    page = new EventTarget();
    vi.stubGlobal('Worker', FakeWorker);
    vi.stubGlobal('addEventListener', page.addEventListener.bind(page));
    vi.stubGlobal('removeEventListener', page.removeEventListener.bind(page));
  });
  const stored = (key: string, newValue: string | null): void =>
    void page.dispatchEvent(Object.assign(new Event('storage'), { key, newValue }));

  test('passes its patterns to the worker of the engine before any command', () => {
    store('peergrad:links');
    const engine = startEngine(() => {});
    engine.send({ type: 'leave' });
    engine.stop();
    expect(FakeWorker.received).toEqual([
      { type: 'debug', patterns: 'peergrad:links' },
      { type: 'command', command: { type: 'leave' } },
    ]);
  });

  test('passes nothing if it has no patterns, or no storage', () => {
    store(null);
    startEngine(() => {}).stop();
    vi.stubGlobal('localStorage', undefined);
    startEngine(() => {}).stop();
    expect(FakeWorker.received).toEqual([]);
  });

  test('of a program takes the patterns that another tab stores', async () => {
    store(null);
    vi.stubGlobal('location', { origin: 'https://page.example', hash: '' });
    vi.resetModules();
    const { thisPage } = await import('../../src/library/thisPage.ts');
    await thisPage();
    stored('debug', 'peergrad:links');
    expect(createDebugLog('links').isOn()).toBe(true);
    stored('debug', null);
    expect(createDebugLog('links').isOn()).toBe(false);
  });

  test('passes patterns that another tab stores, until its engine stops', () => {
    store(null);
    const engine = startEngine(() => {});
    stored('name', 'Ada');
    stored('debug', 'peergrad:*');
    stored('debug', null);
    engine.stop();
    stored('debug', 'peergrad:*');
    expect(FakeWorker.received).toEqual([
      { type: 'debug', patterns: 'peergrad:*' },
      { type: 'debug', patterns: '' },
    ]);
  });
});

test('a line of membership names event, phases and effects', () => {
  const before = nextMembership(INITIAL_MEMBERSHIP, { type: 'admitted', member: 'ada' }).state;
  const event = { type: 'pause', run: 1, generation: 0, waitingFor: 1 } as const;
  expect(describeMembershipStep(before, event, nextMembership(before, event))).toBe(
    'Member ada, generation 0: pause, WAITING; effects: none.',
  );
});
