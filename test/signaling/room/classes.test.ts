/**
 * Whole classes on networks that fail. The tests check how long the classes wait, which members are
 * suspended, and which messages the members receive. Time is simulated.
 */
import { describe, expect, test } from 'vitest';
import { createRng } from '../../../src/util/rng.ts';
import { ClassModel, type ClassOptions } from './classModel.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

const classOf = (n: number, options: Omit<ClassOptions, 'seed'> = {}, seed = n): ClassModel =>
  new ClassModel({ seed, ...options }).start(n);

/** Returns a network in which these members can reach no other member. */
const unreachable =
  (...members: string[]): NonNullable<ClassOptions['canReach']> =>
  (a, b) =>
    !members.includes(a) && !members.includes(b);

/** Returns the browser of a member. For example, `pc0-a` is a tab of the browser `pc0`. */
const browserOf = (member: string): string => member.slice(0, 3);

const isNew = (member: string): boolean => member.startsWith('new');

const names = (events: readonly { member: string }[]): string[] => [...new Set(events.map(({ member }) => member))];

/** Returns the longest time between two steps after `from`, in milliseconds. */
function longestStop({ steps, clock }: ClassModel, from: number): number {
  const times = [from, ...steps.filter((at) => at > from), clock.now()];
  return Math.max(...times.slice(1).map((at, i) => at - times[i]!));
}

/** Ten times, a new tab of one browser joins and leaves. */
const reload = (model: ClassModel, seconds: number): ClassModel => {
  model.runUntil(() => false, 20 * SECOND);
  for (let i = 0; i < 10; i++) {
    model.enter(`new${i}`, 'one browser');
    model.runUntil(() => false, seconds * SECOND);
    model.leave(`new${i}`);
    model.runUntil(() => false, 5 * SECOND);
  }
  return model;
};

describe('an unreachable tab', () => {
  test.each([3, 4, 5, 8, 30, 60])('does not prevent the other members of a class of %i from training', (n) => {
    const model = classOf(n, { canReach: unreachable('m1') });
    expect(model.runUntil(() => model.begun.length > 0, 90 * SECOND)).toBe(true);
    expect(model.begun[0]!.ring).toHaveLength(n - 1);
    expect(names(model.suspended)).toEqual(['m1']);
    expect(model.suspended[0]!.message).toMatch(
      /^The other ranks could not connect to this tab .*VPN.*--turn.*within 30 s/,
    );
    expect(model.expelled).toEqual([]);
  });

  test.each([3, 4, 30])('is reached over a relay in a class of %i', (n) => {
    const model = classOf(n, { canReach: unreachable('m1'), hasRelay: true });
    expect(model.runUntil(() => model.begun.length > 0, 90 * SECOND)).toBe(true);
    expect(model.begun[0]!.ring).toHaveLength(n);
  });

  test('is left out even if other tabs of its browser can reach it', () => {
    const model = new ClassModel({ seed: 1, canReach: (a, b) => a.startsWith('pc') === b.startsWith('pc') });
    for (const member of ['m0', 'm1', 'm2', 'pc0', 'pc1', 'pc2', 'm3', 'm4']) {
      model.enter(member, member.startsWith('pc') ? 'a browser of theirs' : undefined);
    }
    model.dispatch({ type: 'start', member: 'm0' });
    expect(model.runUntil(() => model.begun.length > 0, 90 * SECOND)).toBe(true);
    expect([...model.ring].sort()).toEqual(['m0', 'm1', 'm2', 'm3', 'm4']);
  });

  test('is left out even if half of the class is unreachable', () => {
    for (const bad of [2, 3, 5, 8, 10, 15]) {
      const gone = Array.from({ length: bad }, (_, i) => `m${(7 * i + 3) % 30}`);
      const model = classOf(30, { canReach: unreachable(...gone) });
      expect(
        model.runUntil(() => model.begun.length > 0, 90 * SECOND),
        `${bad} of 30`,
      ).toBe(true);
      expect(names(model.suspended).sort(), `${bad} of 30`).toEqual(gone.sort());
    }
  });

  test('joins without a reload once it is reachable', () => {
    const model = classOf(8, { canReach: (a, b, now) => now > MINUTE || (a !== 'm1' && b !== 'm1') });
    expect(model.runUntil(() => model.ring.includes('m1') && model.phase === 'RUNNING', 3 * MINUTE)).toBe(true);
  });

  test("interrupts the others' training only for a short time when it joins, even if another member leaves", () => {
    for (let after = 0; after < 60; after += 3) {
      const model = classOf(30, { canReach: unreachable('new') });
      model.runUntil(() => false, 10 * SECOND);
      model.enter('new');
      model.runUntil(() => false, after * SECOND);
      const at = model.clock.now();
      model.leave('m5');
      expect(
        model.runUntil(() => model.trainsSince(at), 5 * SECOND),
        `left ${after} s after`,
      ).toBe(true);
      model.runUntil(() => false, MINUTE);
      expect(longestStop(model, 5 * SECOND)).toBeLessThan(10 * SECOND);
    }
  });

  test('is tried less and less often, even if it is closed and reopened', () => {
    const model = classOf(30, { canReach: (a, b) => !a.startsWith('new') && !b.startsWith('new') });
    model.runUntil(() => false, 10 * SECOND);
    const generations: number[] = [];
    for (let quarter = 0; quarter < 4; quarter++) {
      const before = model.generations;
      for (let i = 0; i < 15; i++) {
        const member = `new${quarter}-${i}`;
        model.enter(member, 'the same machine');
        model.runUntil(() => false, MINUTE);
        model.leave(member);
      }
      generations.push(model.generations - before);
    }
    expect(generations[3]).toBeLessThan(generations[0]! / 2);
    expect(longestStop(model, 5 * SECOND)).toBeLessThan(5 * SECOND);
    // The next run begins without this tab.
    model.enter('new again', 'the same machine');
    model.dispatch({ type: 'stop', member: 'm0' });
    model.dispatch({ type: 'start', member: 'm0' });
    const at = model.clock.now();
    expect(model.runUntil(() => model.trainsSince(at), 5 * SECOND)).toBe(true);
  });
});

describe('newcomers that can reach each other but no rank', () => {
  test.each([1, 2])('wait, and the %i ranks with the state continue', (n) => {
    const model = classOf(n, { canReach: (a, b) => isNew(a) === isNew(b) });
    model.runUntil(() => false, 20 * SECOND);
    for (const member of ['new0', 'new1', 'new2']) model.enter(member);
    model.runUntil(() => false, 15 * MINUTE);
    expect(model.ended).toBeNull();
    expect(names(model.suspended).every(isNew)).toBe(true);
    expect(longestStop(model, 20 * SECOND)).toBeLessThan(5 * SECOND);
  });
});

describe('a network that isolates tabs', () => {
  test.each([2, 3, 4, 8, 30, 60])('ends the run of %i members with a message about likely causes and advice', (n) => {
    const model = classOf(n, { canReach: () => false });
    expect(model.runUntil(() => model.ended !== null, 5 * MINUTE)).toBe(true);
    expect(model.ended!.message).toMatch(
      /could (not )?connect to (each other|its neighbours).*client isolation.*no TURN relay/,
    );
    expect([model.suspended, model.expelled]).toEqual([[], []]);
    expect(model.members).toHaveLength(n);
  });

  test('does not prevent members from training over a relay', () => {
    const model = classOf(4, { canReach: () => false, hasRelay: true });
    model.runUntil(() => model.begun.length > 0 || model.ended !== null, 5 * MINUTE);
    expect(model.begun[0]?.ring).toHaveLength(4);
  });

  test.each([3, 4, 6, 30])(
    'does not prevent %i members with a relay from training when a rank leaves or joins',
    (n) => {
      const model = classOf(n, { canReach: () => false, hasRelay: true });
      model.runUntil(() => model.begun.length > 0, MINUTE);
      for (const change of [() => model.leave('m1'), () => model.enter('new')]) {
        model.runUntil(() => false, 8 * MINUTE);
        const at = model.clock.now();
        change();
        expect(model.runUntil(() => model.trainsSince(at) && model.ring.length === model.members.length, MINUTE)).toBe(
          true,
        );
      }
      expect(longestStop(model, MINUTE)).toBeLessThan(5 * SECOND);
      expect([model.ended, model.suspended]).toEqual([null, []]);
    },
  );

  test('lets tabs of one browser link without the relay', () => {
    const model = new ClassModel({ seed: 1, canReach: (a, b) => browserOf(a) === browserOf(b), hasRelay: true });
    const tabs = ['pc0-a', 'pc0-b', 'pc1-a', 'pc1-b', 'pc2-a', 'pc2-b'];
    for (const tab of tabs) model.enter(tab, browserOf(tab));
    model.dispatch({ type: 'start', member: tabs[0]! });
    expect(model.runUntil(() => model.begun.length > 0, MINUTE)).toBe(true);
    expect(model.relayed).toHaveLength(3);
    expect(model.relayed.some(([a, b]) => browserOf(a) === browserOf(b))).toBe(false);
  });

  test('delays training by at most 20 s for each rank that leaves, if it isolates some pairs and there is a relay', () => {
    for (let seed = 0; seed < 60; seed++) {
      const rng = createRng(seed);
      const n = 4 + rng.below(20);
      const share = rng.next();
      const pairs = new Map<string, boolean>();
      const canReach = (a: string, b: string): boolean => {
        const key = [a, b].sort().join(' ');
        if (!pairs.has(key)) pairs.set(key, rng.next() < share);
        return pairs.get(key)!;
      };
      const model = classOf(n, { canReach, hasRelay: true }, seed);
      const what = `seed ${seed}: ${n}`;
      for (let gone = 1; gone < n - 1; gone++) {
        model.runUntil(() => false, (1 + rng.below(8)) * MINUTE);
        const at = model.clock.now();
        model.leave(`m${gone}`);
        expect(
          model.runUntil(() => model.trainsSince(at), 20 * SECOND),
          what,
        ).toBe(true);
      }
      expect([model.ended, model.suspended], what).toEqual([null, []]);
    }
  });

  test.each([2, 3, 4, 8, 30])('suspends none of %i members if it lasts up to a minute', (n) => {
    for (const seconds of [8, 20, 40, 60]) {
      // Twice.
      const isDown = (at: number): boolean =>
        [30, 150].some((from) => at > from * SECOND && at < (from + seconds) * SECOND);
      const model = classOf(n, { canReach: (_a, _b, now) => !isDown(now) });
      model.runUntil(() => false, 4 * MINUTE);
      expect(model.ended, `${seconds} s`).toBeNull();
      expect([model.suspended, model.expelled], `${seconds} s`).toEqual([[], []]);
      expect(model.ring).toHaveLength(n);
      expect(longestStop(model, 5 * SECOND)).toBeLessThan((seconds + 20) * SECOND);
    }
  });

  test.each([2, 3, 4, 8, 30])(
    'does not end a run of %i members with a broken relay if it lasts up to a minute',
    (n) => {
      for (const seconds of [8, 20, 40, 60]) {
        const isCut = (at: number): boolean => at > 30 * SECOND && at < (30 + seconds) * SECOND;
        const model = classOf(n, { hasRelay: true, isRelayDown: true, canReach: (_a, _b, now) => !isCut(now) });
        model.runUntil(() => false, 4 * MINUTE);
        expect(model.ended, `${seconds} s`).toBeNull();
        expect(model.suspended, `${seconds} s`).toEqual([]);
        expect([model.phase, model.ring.length, model.relayed.length]).toEqual(['RUNNING', n, 0]);
      }
    },
  );

  test('leads only to short suspensions if it isolates half of a class for a minute', () => {
    const model = classOf(30, {
      canReach: (a, b, now) =>
        now < 30 * SECOND || now > 90 * SECOND || [a, b].every((member) => Number(member.slice(1)) % 2 === 0),
    });
    model.runUntil(() => false, 4 * MINUTE);
    expect(model.expelled).toEqual([]);
    expect(model.ring).toHaveLength(30);
  });
});

describe('a tab that delays every step', () => {
  test.each([2, 3, 4, 8, 30])('is suspended within three minutes in a class of %i', (n) => {
    for (const hasOneWitness of [false, true]) {
      for (const seconds of [Number.POSITIVE_INFINITY, 600, 100, 80, 65]) {
        const what = `${seconds} s a step, ${hasOneWitness ? 'one witness' : 'all report'}`;
        const stepMs = (member: string): number => (member === 'm1' ? seconds : 1) * SECOND;
        const model = classOf(n, { stepMs, hasOneWitness });
        model.runUntil(() => false, 15 * MINUTE);
        expect(model.ended, what).toBeNull();
        expect(names(model.suspended), what).toEqual(['m1']);
        expect(model.suspended[0]!.at, what).toBeLessThan(3 * MINUTE);
        expect(longestStop(model, 5 * SECOND), what).toBeLessThan(3 * MINUTE);
        // The tab is tried again less and less often.
        expect(model.suspended.length, what).toBeLessThan(5);
      }
    }
  });

  test('gets a rank again once it is fast enough', () => {
    let isSlow = true;
    const model = classOf(4, { stepMs: (member) => (member === 'm1' && isSlow ? 100 : 1) * SECOND });
    model.runUntil(() => model.suspended.length > 0, 3 * MINUTE);
    isSlow = false;
    expect(model.runUntil(() => model.ring.includes('m1') && model.phase === 'RUNNING', 5 * MINUTE)).toBe(true);
  });
});

describe('a member with false reports', () => {
  const about: Record<string, NonNullable<ClassOptions['liesAbout']>> = {
    'the next rank': (member, ring) => (member === 'm0' ? ring.find((other) => other !== 'm0')! : null),
    'always the same rank': (member, ring) => (member === 'm0' && ring.includes('m2') ? 'm2' : null),
    'another rank each time': (member, ring) =>
      member === 'm0' ? ring.filter((one) => one !== 'm0')[turn++ % (ring.length - 1)]! : null,
  };
  let turn = 0;

  test.each(Object.entries(about))(
    'cannot suspend another member or stop training by reports that name %s',
    (_, liesAbout) => {
      for (const n of [2, 3, 5, 30]) {
        for (const [liesLate, othersReport] of [
          [false, false],
          [true, false],
          // With two members it is unknown which report is false.
          ...(n > 2 ? [[true, true] as const] : []),
        ] as const) {
          const model = classOf(n, { liesAbout, liesLate, othersReport });
          model.runUntil(() => false, 60 * MINUTE);
          expect(model.ended, `${n} members`).toBeNull();
          const out = names([...model.suspended, ...model.expelled]);
          expect(
            out.filter((member) => member !== 'm0'),
            `${n} members`,
          ).toEqual([]);
          expect(model.generations, `${n} members`).toBeLessThan(60);
          expect(longestStop(model, 15 * SECOND), `${n} members`).toBeLessThan(15 * SECOND);
        }
      }
    },
  );
});

describe('a browser whose tab joins again and again', () => {
  test.each([2, 4])('leads to no suspension of the %i other members if it cannot reach the host', (n) => {
    const model = reload(classOf(n, { canReach: (a, b) => ![a, b].includes('m0') || ![a, b].some(isNew) }), 22);
    expect(names(model.suspended).filter((member) => !isNew(member))).toEqual([]);
    expect(model.ended).toBeNull();
  });

  test.each([false, true])('cannot suspend another member by false reports (relay: %s)', (hasRelay) => {
    const model = reload(
      classOf(6, { hasRelay, liesAbout: (member, ring) => (isNew(member) && ring.includes('m0') ? 'm0' : null) }),
      3.5,
    );
    expect(names(model.suspended).filter((member) => !isNew(member))).toEqual([]);
  });
});

describe('links that break repeatedly', () => {
  test.each([3, 4, 5, 8, 30])(
    'lead to the suspension of the member that they have in common, in a class of %i',
    (n) => {
      const model: ClassModel = new ClassModel({
        seed: n,
        canReach: (a, b): boolean => model.phase !== 'RUNNING' || (a !== 'm1' && b !== 'm1'),
      });
      model.start(n);
      model.runUntil(() => false, 30 * MINUTE);
      expect(names([...model.suspended, ...model.expelled])).toEqual(['m1']);
      expect(model.ended).toBeNull();
      expect(model.generations).toBeLessThan(40);
    },
  );

  test.each([3, 4, 5, 8, 30])(
    'lead only to a short suspension of their common member if they break during one minute, in a class of %i',
    (n) => {
      const model: ClassModel = new ClassModel({
        seed: n,
        canReach: (a, b, now): boolean => now > MINUTE || model.phase !== 'RUNNING' || (a !== 'm1' && b !== 'm1'),
      });
      model.start(n);
      expect(model.runUntil(() => model.suspended.length > 0, 2 * MINUTE)).toBe(true);
      expect(model.ring).not.toContain('m1');
      expect(model.runUntil(() => model.ring.includes('m1') && model.phase === 'RUNNING', 3 * MINUTE)).toBe(true);
      expect([names(model.suspended), model.expelled]).toEqual([['m1'], []]);
      expect(model.members).toHaveLength(n);
    },
  );

  test('end a run of two members, with a message that names both', () => {
    const model: ClassModel = new ClassModel({ seed: 2, canReach: () => model.phase !== 'RUNNING' });
    model.start(2);
    expect(model.runUntil(() => model.ended !== null, 5 * MINUTE)).toBe(true);
    expect(model.ended!.message).toMatch(/Rank 0 \(m0\) and rank 1 \(m1\) lost links/);
  });
});

test('random classes train with all tabs except those that are unreachable, hang or send false reports', () => {
  for (let seed = 0; seed < 60; seed++) {
    const rng = createRng(seed);
    const n = 6 + rng.below(25);
    const odd = Array.from({ length: rng.below(Math.floor(n / 3)) }, () => `m${1 + rng.below(n - 1)}`);
    const kinds = new Map(
      odd.map((member, i) => [member, i === 0 ? 'lies' : (['unreachable', 'hangs'] as const)[rng.below(2)]!]),
    );
    const isA = (member: string, kind: string): boolean => kinds.get(member) === kind;
    const model = classOf(
      n,
      {
        canReach: (a, b) => !isA(a, 'unreachable') && !isA(b, 'unreachable'),
        stepMs: (member) => (isA(member, 'hangs') ? Number.POSITIVE_INFINITY : SECOND),
        liesAbout: (member, ring) => (isA(member, 'lies') ? ring.find((one) => !kinds.has(one))! : null),
        liesLate: rng.next() < 0.5,
      },
      seed,
    );
    const healthy = Array.from({ length: n }, (_, i) => `m${i}`).filter((member) => !kinds.has(member));
    const areTogether = (): boolean => model.steps.length > 0 && healthy.every((member) => model.ring.includes(member));
    const what = `seed ${seed}: ${n}, ${JSON.stringify([...kinds])}`;
    expect(model.runUntil(areTogether, 5 * MINUTE), what).toBe(true);
    model.runUntil(() => false, 5 * MINUTE);
    expect(model.ended, what).toBeNull();
    const out = names([...model.suspended, ...model.expelled]);
    expect(
      out.filter((member) => healthy.includes(member)),
      what,
    ).toEqual([]);
  }
});
