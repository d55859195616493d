/** Rooms in which pairs that cannot link directly link through the server. */
import { describe, expect, test } from 'vitest';
import { createRng } from '../../../src/util/rng.ts';
import { COOLING_MS, mayLink, type RoomEvent, type RoomOptions } from '../../../signaling/room/index.ts';
import { includesPair, neighbours } from '../../../signaling/room/edges.ts';
import { orderOf } from '../../../signaling/room/ringOrder.ts';
import type { RosterEntry } from '../../../src/protocol/room.ts';
import { ClassModel, type ClassOptions } from './classModel.ts';
import { active, back, breakLink, grow, left, open, OPEN, restored } from './elasticRoom.ts';
import { DEVICE, join, NAMES, Play, ready } from './play.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const SERVED = { hasServerLinks: true, nodes: { min: 1, max: 8 }, capacity: 8 } satisfies Partial<RoomOptions>;

/** Reports all ranks as linked. The pairs in `served`, such as 'Ada Bo', use the server. */
function link(play: Play, ...served: string[]): Play {
  const pairs = served.map((pair) => pair.split(' '));
  const { ring, generation } = play.state;
  for (const { member } of ring) {
    const peers = pairs.flatMap((pair) => (pair.includes(member) ? pair.filter((one) => one !== member) : []));
    play.do({ type: 'linked', member, generation, ...(peers.length > 0 && { served: peers }) });
  }
  return play;
}

/** Starts a run of `n` members whose pairs in `served` link through the server. */
const running = (n: number, served: string[], options: Partial<RoomOptions> = {}): Play =>
  link(new Play({ ...SERVED, ...options }).enter(n).start(), ...served).report('synced', ['same']);

const unlinked = (play: Play): string[] => play.state.unlinked.map((pair) => [...pair].sort().join(' ')).sort();

/** Returns the pairs that the latest `prepare` lists as served. */
const served = (play: Play, member = 'Ada'): string[] =>
  play
    .received(member, 'prepare')
    .served.map((pair) => [...pair].sort().join(' '))
    .sort();

/** Begins another generation with the same ranks, while none of them trains. */
const failGeneration = (play: Play): Play =>
  play
    .do({
      type: 'failed',
      member: 'Ada',
      generation: play.state.generation,
      message: 'It failed.',
      scope: 'generation',
    })
    .gather();

describe('a pair that links through the server', () => {
  test('begins with the server in the next generation', () => {
    const play = running(3, ['Ada Bo']);
    expect(unlinked(play)).toEqual(['Ada Bo']);
    expect(served(failGeneration(play))).toEqual(['Ada Bo']);
  });

  test('is known even if only one end reports it', () => {
    const play = new Play(SERVED).enter(3).start();
    play.do({ type: 'linked', member: 'Cy', generation: 1, served: ['Ada'] });
    expect(unlinked(play)).toEqual(['Ada Cy']);
  });

  test('no longer begins with the server after it has linked directly', () => {
    const play = failGeneration(running(3, ['Ada Bo']));
    link(play).report('synced', ['same']);
    expect(unlinked(play)).toEqual([]);
    expect(served(failGeneration(play))).toEqual([]);
  });

  test('is ignored if the two are not neighbours, are tabs of one browser, or have reported already', () => {
    const play = new Play(SERVED);
    for (const member of NAMES) play.do(join(member, { browser: member < 'C' ? 'one' : member }), ready(member));
    play.start().do({ type: 'linked', member: 'Ada', generation: 1, served: ['Bo', 'Cy', 'Nobody'] });
    play.do({ type: 'linked', member: 'Ada', generation: 1, served: ['Ed'] });
    play.do({ type: 'linked', member: 'Ed', generation: 2, served: ['Ada'] });
    expect(unlinked(play)).toEqual([]);
  });

  test('is forgotten when both of its members have left, and remembered as long as one is present', () => {
    const play = running(5, ['Ada Bo', 'Di Ed']);
    link(play.do(left('Ada')), 'Di Ed').report('synced', ['same']);
    expect(unlinked(play)).toEqual(['Ada Bo', 'Di Ed']);
    link(play.do(left('Bo')), 'Di Ed').report('synced', ['same']);
    expect(unlinked(play)).toEqual(['Di Ed']);
  });

  test('begins with the server in the next run, too', () => {
    const play = running(3, ['Ada Bo']).do({ type: 'stop', member: 'Ada' }).start();
    expect(served(play)).toEqual(['Ada Bo']);
  });

  test('is announced to the room before the next run, and not during a run', () => {
    const facts = { areAll: false, bytesPerSecond: 1e6 };
    const play = running(3, [], { serverLinksRate: 1e6 });
    const announced = (): unknown => play.received('Bo', 'room').served;
    play.do({ type: 'stop', member: 'Ada' });
    expect(announced()).toEqual({ ...facts, pairs: 0 });
    link(play.start(), 'Ada Bo').report('synced', ['same']);
    expect(announced()).toEqual({ ...facts, pairs: 0 });
    play.do({ type: 'stop', member: 'Ada' });
    expect(announced()).toEqual({ ...facts, pairs: 1 });
    expect(served(play.start())).toEqual(['Ada Bo']);
  });

  test('begins with the server in a fixed world, whose order does not change', () => {
    const play = running(4, ['Ada Bo', 'Bo Cy'], { nodes: null });
    play.do(grow);
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do({ type: 'stop', member: 'Ada' }).start();
    expect(served(play)).toEqual(['Ada Bo', 'Bo Cy']);
  });

  test('is not separated because it is slow, since another pair would then need the server', () => {
    const play = running(5, ['Ada Bo', 'Cy Di']);
    play.do({ type: 'slow', member: 'Ada', generation: 1, peer: 'Bo' });
    expect(play.state.generation).toBe(1);
    play.do({ type: 'slow', member: 'Di', generation: 1, peer: 'Ed' });
    expect(play.state.generation).toBe(2);
  });
});

/** Reports a direct connection beside a link through the server. */
const reportDirect = (play: Play, member: string, peer: string): Play =>
  play.do({ type: 'direct', member, peer, generation: play.state.generation });

/** Whether a generation begins after the cooling time. */
const setsTimer = ({ effects }: Play): boolean =>
  effects.some((effect) => effect.type === 'setTimer' && effect.key === 'grow' && effect.ms === COOLING_MS);

describe('a pair that has a direct connection beside its link through the server', () => {
  test.each([
    [2, ['Ada Bo']],
    [3, ['Ada Bo', 'Bo Cy', 'Ada Cy']],
  ])('of %i ranks uses it soon, in a generation of the same order, while the ranks train', (n, pairs) => {
    const play = reportDirect(running(n, pairs), 'Ada', 'Bo');
    expect([setsTimer(play), unlinked(play).includes('Ada Bo')]).toEqual([true, false]);
    play.do(grow);
    expect(play.state).toMatchObject({ generation: 2, isTraining: true, reorders: 0 });
    expect(play.ring).toEqual(NAMES.slice(0, n));
  });

  test('shares the generation that uses it with pairs that report meanwhile', () => {
    const play = running(3, ['Ada Bo', 'Bo Cy', 'Ada Cy']);
    expect([setsTimer(reportDirect(play, 'Ada', 'Bo')), setsTimer(reportDirect(play, 'Cy', 'Bo'))]).toEqual([
      true,
      false,
    ]);
    expect(served(play.do(grow))).toEqual(['Ada Cy']);
    link(play, 'Ada Cy').report('synced', ['same']);
    expect(play.do(grow).state).toMatchObject({ generation: 2, phase: 'RUNNING' });
  });

  test('uses this connection even if it reports it before its link through the server', () => {
    const play = link(reportDirect(new Play(SERVED).enter(2).start(), 'Ada', 'Bo'), 'Ada Bo').report('synced', [
      'same',
    ]);
    expect([unlinked(play), play.do(grow).state.generation]).toEqual([[], 2]);
  });

  test('does not begin a generation if it has linked directly meanwhile', () => {
    const play = link(reportDirect(new Play(SERVED).enter(2).start(), 'Ada', 'Bo')).report('synced', ['same']);
    expect(play.do(grow).state.generation).toBe(1);
  });

  test('does not begin a generation when ranks have finished, or while a failure is judged', () => {
    const finished = reportDirect(running(3, ['Ada Bo']), 'Ada', 'Bo');
    finished.do({ type: 'finished', member: 'Cy', generation: 1, step: 1, stateHash: 'x' }, grow);
    expect(finished.state.generation).toBe(1);
    const failing = reportDirect(running(3, ['Ada Bo']), 'Ada', 'Bo');
    failing.do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Cy'] }, grow);
    expect(failing.state.generation).toBe(1);
  });

  test('uses this connection in the next run if the world is fixed', () => {
    const play = reportDirect(running(2, ['Ada Bo'], { nodes: null }), 'Ada', 'Bo');
    expect([setsTimer(play), play.do(grow).state.generation]).toEqual([false, 1]);
    expect(served(play.do({ type: 'stop', member: 'Ada' }).start())).toEqual([]);
  });

  test('uses this connection if there is a relay, and is no longer relayed', () => {
    const play = reportDirect(running(2, ['Ada Bo'], { hasRelay: true }), 'Ada', 'Bo').do(grow);
    expect(play.received('Ada', 'prepare')).toMatchObject({ generation: 2, relayed: [], served: [] });
  });

  test('uses this connection and stays relayed if it goes over the relay', () => {
    const play = failGeneration(running(2, ['Ada Bo'], { hasRelay: true }));
    reportDirect(link(play, 'Ada Bo').report('synced', ['same']), 'Ada', 'Bo').do(grow);
    expect(play.received('Ada', 'prepare')).toMatchObject({ generation: 3, relayed: [['Ada', 'Bo']], served: [] });
  });

  test('stays with the server after its direct connection has broken twice', () => {
    const play = running(2, ['Ada Bo']);
    const changes = [1, 2, 3, 4].map(() => {
      const { generation } = reportDirect(play, 'Ada', 'Bo').state;
      const changed = play.do(grow).state.generation > generation;
      if (changed) link(play).report('synced', ['same']);
      link(breakLink(play, 'Ada', 'Bo'), 'Ada Bo').report('synced', ['same']);
      return changed;
    });
    expect([changes, unlinked(play)]).toEqual([[true, true, false, false], ['Ada Bo']]);
    play.do({ type: 'stop', member: 'Ada' }).start();
    reportDirect(link(play, 'Ada Bo').report('synced', ['same']), 'Ada', 'Bo').do(grow);
    expect(play.state).toMatchObject({ run: 2, phase: 'LINKING', served: [] });
  });

  test('is ignored if it is of another generation or browser, or if one end is not a rank', () => {
    const play = new Play(SERVED);
    for (const member of NAMES) play.do(join(member, { browser: member < 'C' ? 'one' : member }), ready(member));
    link(play.start(), 'Bo Cy').report('synced', ['same']);
    for (const [member, peer, generation] of [
      ['Ada', 'Bo', 1],
      ['Bo', 'Cy', 2],
      ['Bo', 'Nobody', 1],
    ] as const) {
      play.do({ type: 'direct', member, peer, generation });
    }
    expect([play.state.kept, unlinked(play)]).toEqual([[], ['Bo Cy']]);
  });
});

/** Returns a room in which no two of four members link directly, and the fourth has just joined. */
const allApart = (): Play => failGeneration(running(3, ['Ada Bo', 'Bo Cy', 'Ada Cy']).do(join('Di'), ready('Di')));

describe('a member that may be isolated', () => {
  test('begins all its links with the server if two of them could not open directly, and nobody trains', () => {
    const play = allApart();
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy', 'Di']);
    expect(served(play)).toEqual(['Ada Bo', 'Ada Di', 'Bo Cy', 'Cy Di']);
    // The pair of Cy and Di has hardly tried to link directly, so nothing is known about it.
    link(play, 'Ada Bo', 'Bo Cy', 'Cy Di', 'Ada Di');
    expect(includesPair(play.state.unlinked, ['Cy', 'Di'])).toBe(false);
  });

  test('says nothing about the pairs that again use their link through the server', () => {
    const play = link(allApart(), 'Ada Bo', 'Bo Cy', 'Cy Di', 'Ada Di').report('synced', ['same']);
    play.do(join('Ed'), ready('Ed'), grow);
    expect(play.state).toMatchObject({ generation: 3, isTraining: true });
    link(play, ...neighbours(play.ring).map((pair) => pair.join(' ')));
    expect(includesPair(play.state.unlinked, ['Cy', 'Di'])).toBe(false);
    // A new pair has had the time to link directly.
    expect(unlinked(play).some((pair) => pair.includes('Ed'))).toBe(true);
  });

  test('begins new links directly while the others train, and those that need the server with the server', () => {
    const play = running(4, ['Ada Bo', 'Bo Cy', 'Cy Di', 'Ada Di']).do(join('Ed'), ready('Ed')).do(grow);
    expect(play.ring).toHaveLength(5);
    for (const pair of play.received('Ada', 'prepare').served) {
      expect(includesPair(play.state.unlinked, pair)).toBe(true);
    }
  });

  test('is expected to need the server for pairs with all members that are linked to a member that it did not reach', () => {
    const play = running(5, ['Ada Bo', 'Bo Cy']).do(left('Cy'));
    expect(play.ring).toEqual(['Ada', 'Bo', 'Di', 'Ed']);
    expect(served(play)).toEqual(['Ada Bo', 'Bo Di']);
    // The new pair is remembered even after the old one has gone.
    link(play, 'Ada Bo', 'Bo Di');
    expect(unlinked(play)).toEqual(['Ada Bo', 'Bo Cy', 'Bo Di']);
  });
});

describe('a pair that reports nothing before the deadline', () => {
  test('is not expected to need the server, because a busy machine may be the cause', () => {
    const play = new Play(SERVED).enter(4).start();
    for (const member of ['Cy', 'Di']) play.do({ type: 'broken', member, generation: 1, peers: ['Cy', 'Di'] });
    play.do({ type: 'deadline', generation: 1, phase: 'LINKING' });
    expect([play.state.generation, unlinked(play)]).toEqual([2, ['Cy Di']]);
  });
});

describe('a direct link that breaks', () => {
  test.each(['RUNNING', 'SYNCING'])('in %s begins with the server in the next generation', (phase) => {
    const play = phase === 'RUNNING' ? running(4, []) : link(new Play(SERVED).enter(4).start());
    expect(breakLink(play, 'Ada', 'Bo').ring).toEqual(['Ada', 'Bo', 'Cy', 'Di']);
    expect(served(play)).toEqual(['Ada Bo']);
  });

  test('begins with the server even if most links break at once', () => {
    const play = running(3, []);
    for (const [member, peers] of [
      ['Ada', ['Bo', 'Cy']],
      ['Bo', ['Ada', 'Cy']],
      ['Cy', ['Ada', 'Bo']],
    ] as const) {
      play.do({ type: 'broken', member, generation: 1, peers: [...peers] });
    }
    expect(served(play)).toEqual(['Ada Bo', 'Ada Cy', 'Bo Cy']);
  });

  test('because a tab is closed says nothing about the pair', () => {
    const play = running(4, []).do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] }, left('Bo'));
    expect(unlinked(play)).toEqual([]);
    expect(served(play)).toEqual([]);
  });

  test('because a tab is closed when it has finished says nothing about the pair either', () => {
    const play = running(4, []);
    play.do({ type: 'finished', member: 'Bo', generation: 1, step: 1, stateHash: 'x' }, left('Bo'));
    breakLink(play, 'Ada', 'Bo');
    expect(play.state.generation).toBe(2);
    expect(unlinked(play)).toEqual([]);
  });

  test('begins with the server after a restart of the server, which has ended its links', () => {
    const before = running(3, ['Ada Bo']);
    const returns = ['Ada', 'Bo'].map((member) => back(before, member, { active: active(before) }));
    const play = restored(before, ...returns);
    play.state = { ...play.state, hasServerLinks: true };
    expect(play.state).toMatchObject({ isRestoring: true, served: [], direct: [], reorders: 0 });
    play.do(
      { type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] },
      back(before, 'Cy', { active: active(before) }),
    );
    expect(play.state.phase).toBe('LINKING');
    expect(served(play)).toEqual(['Ada Bo']);
  });
});

describe('a room with a relay and links through the server', () => {
  const BOTH = { hasRelay: true };

  test('prefers the relay for a pair that has linked through the server', () => {
    const play = failGeneration(running(3, ['Ada Bo'], BOTH));
    expect(play.received('Ada', 'prepare')).toMatchObject({ relayed: [['Ada', 'Bo']], served: [] });
    // A link over the relay is no direct link, so the pair still needs the relay.
    link(play).report('synced', ['same']);
    expect(failGeneration(play).received('Ada', 'prepare').relayed).toEqual([['Ada', 'Bo']]);
  });

  test('uses the server for a pair that the relay did not help, but not for others', () => {
    const play = failGeneration(running(4, ['Ada Bo', 'Cy Di'], BOTH));
    link(play, 'Ada Bo').report('synced', ['same']);
    failGeneration(play);
    expect(play.received('Ada', 'prepare')).toMatchObject({ relayed: [['Cy', 'Di']], served: [['Ada', 'Bo']] });
    link(play, 'Ada Bo').report('synced', ['same']);
    failGeneration(play);
    expect(play.received('Ada', 'prepare')).toMatchObject({ relayed: [['Cy', 'Di']], served: [['Ada', 'Bo']] });
    // If the pair links directly, it needs neither.
    link(play).report('synced', ['same']);
    failGeneration(play);
    expect(play.received('Ada', 'prepare')).toMatchObject({ relayed: [['Cy', 'Di']], served: [] });
  });

  test('does not change its order to have fewer links through the server', () => {
    const play = running(4, ['Ada Bo', 'Bo Cy', 'Cy Di', 'Ada Di'], BOTH).do(grow);
    expect(play.state.generation).toBe(1);
  });
});

test('a room without links through the server ignores reports about them', () => {
  const play = running(4, ['Ada Bo', 'Bo Cy', 'Cy Di', 'Ada Di'], { hasServerLinks: false }).do(grow);
  expect(play.state).toMatchObject({ generation: 1, unlinked: [], direct: [], served: [] });
  expect(served(breakLink(play, 'Ada', 'Bo'))).toEqual([]);
});

/** A newcomer asks for a feeder. */
const ask = (member: string): RoomEvent => ({
  type: 'ready',
  member,
  device: DEVICE,
  stateOfRun: null,
  catchUp: { prefers: null, avoids: [] },
});

describe('a feed', () => {
  test('begins directly if the failed links of its feeder led to tabs that have left, such as those of one laptop', () => {
    const play = running(2, ['Ada Bo']);
    for (const [gone, next] of [
      ['Bo', 'Cy'],
      ['Cy', 'Di'],
    ] as const) {
      link(play.do(left(gone))).report('synced', ['same']);
      play.do(join(next), ask(next));
      expect(play.received(next, 'feed').served).toBe(false);
      play.do(ready(next), grow);
      link(play, `Ada ${next}`).report('synced', ['same']);
    }
    expect(unlinked(play)).toEqual(['Ada Bo', 'Ada Cy', 'Ada Di']);
  });

  test('begins with the server if its feeder may be isolated, and directly if not', () => {
    const isolated = running(2, ['Ada Bo']);
    isolated.do(join('Cy'), ask('Cy'));
    expect(isolated.received('Cy', 'feed')).toMatchObject({ relayed: false, served: false });
    const play = running(4, ['Ada Bo', 'Bo Cy', 'Cy Di', 'Ada Di']);
    play.do(join('Ed'), ask('Ed'));
    expect(play.received('Ed', 'feed')).toMatchObject({ relayed: false, served: true });
  });

  test('begins over the relay if there is one', () => {
    const play = running(3, ['Ada Bo'], { hasRelay: true });
    play.do(join('Ed'), ask('Ed'));
    expect(play.received('Ed', 'feed')).toMatchObject({ relayed: true, served: false });
  });

  test('begins with the server if the relay has helped no pair', () => {
    const play = failGeneration(running(3, ['Ada Bo'], { hasRelay: true }));
    link(play, 'Ada Bo').report('synced', ['same']);
    play.do(join('Ed'), ask('Ed'));
    expect(play.received('Ed', 'feed')).toMatchObject({ relayed: false, served: true });
  });
});

test('two members may link if they are ranks of the latest generation, or the ends of a feed', () => {
  const { state } = open(3).do(join('Di'), {
    type: 'ready',
    member: 'Di',
    device: DEVICE,
    stateOfRun: null,
    catchUp: { prefers: 'Cy', avoids: [] },
  });
  const { generation } = state.feeds.get('Di')!;
  const may = (number: number, member: string, peer: string): boolean => mayLink(state, number, member, peer);
  expect([may(1, 'Ada', 'Cy'), may(generation, 'Di', 'Cy'), may(generation, 'Cy', 'Di')]).toEqual([true, true, true]);
  expect([
    may(2, 'Ada', 'Cy'),
    may(1, 'Ada', 'Ada'),
    may(1, 'Ada', 'Di'),
    may(generation, 'Di', 'Ada'),
    may(generation, 'Ada', 'Cy'),
  ]).toEqual([false, false, false, false, false]);
});

describe('the order of a ring', () => {
  test('changes while the ranks train if another order has fewer links through the server', () => {
    // Ada and Cy are in one network, Bo and Di in another.
    const play = running(4, ['Ada Bo', 'Bo Cy', 'Cy Di', 'Ada Di']).do(grow);
    expect(play.state).toMatchObject({ generation: 2, isTraining: true, reorders: 1 });
    expect(play.received('Ada', 'prepare').served).toHaveLength(2);
    const crossing = play.received('Ada', 'prepare').served.map((pair) => pair.join(' '));
    link(play, ...crossing).report('synced', ['same']);
    expect(play.do(grow).state).toMatchObject({ generation: 2, phase: 'RUNNING' });
  });

  test('separates two members that cannot link directly, although both can link to others', () => {
    const play = running(5, ['Ada Bo']).do(grow);
    expect(play.state.generation).toBe(2);
    expect(served(play)).toEqual([]);
    expect(link(play).report('synced', ['same']).do(grow).state.generation).toBe(2);
  });

  test('changes even if a link has broken', () => {
    const pairs = ['Ada Bo', 'Bo Cy', 'Cy Di', 'Ada Di'];
    const play = breakLink(running(4, pairs), 'Ada', 'Bo');
    link(play, ...pairs).report('synced', ['same']);
    expect(play.do(grow).state).toMatchObject({ generation: 3, reorders: 1 });
  });

  test('does not change when ranks have finished, or while a failure is judged', () => {
    const pairs = ['Ada Bo', 'Bo Cy', 'Cy Di', 'Ada Di'];
    const finished = running(4, pairs);
    finished.do({ type: 'finished', member: 'Ada', generation: 1, step: 1, stateHash: 'x' }, grow);
    expect(finished.state.generation).toBe(1);
    const failing = running(4, pairs);
    failing.do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] }, grow);
    expect(failing.state.generation).toBe(1);
  });

  test('does not change if all ranks wait for the next generation, because the pairs of this order are known', () => {
    const play = failGeneration(running(4, ['Ada Bo', 'Bo Cy', 'Cy Di', 'Ada Di']));
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy', 'Di']);
  });
});

/** Returns the networks of members that join at random. */
function shuffled(sizes: readonly number[], seed: number): number[] {
  const rng = createRng(seed);
  const networks = sizes.flatMap((size, i) => Array.from({ length: size }, () => i));
  for (let i = networks.length - 1; i > 0; i--) {
    const j = rng.below(i + 1);
    [networks[i], networks[j]] = [networks[j]!, networks[i]!];
  }
  return networks;
}

const numberOf = (member: string): number => Number(member.slice(1));

/** Returns the number of neighbours in different networks. */
function crossings(ring: readonly RosterEntry[], networks: readonly number[]): number {
  return neighbours(ring).filter(([a, b]) => networks[a.browser] !== networks[b.browser]).length;
}

test('a room announces all pairs of different browsers if the server forwards the frames of all pairs', () => {
  const play = new Play({ ...SERVED, hasServerLinks: false, servesAll: true, serverLinksRate: 1e6 });
  const pairs = (): number | undefined => play.received('Ada', 'room').served?.pairs;
  play.do(join('Ada', { browser: 'one' }), ready('Ada'), join('Bo', { browser: 'one' }), ready('Bo'));
  expect(pairs()).toBe(0);
  play.do(join('Cy', { browser: 'two' }), ready('Cy'));
  expect(pairs()).toBe(2);
  play.start();
  expect(pairs()).toBe(0);
  expect(new Play(SERVED).enter(3).received('Ada', 'room').served).toBeUndefined();
});

test.each([[[13, 13]], [[26, 4]], [[20, 10]], [[15, 15]], [[3, 3]], [[3, 2]], [[2, 2, 2]], [[9, 8, 7]], [[128, 128]]])(
  'an order of networks of %j tabs has as few links between them as possible',
  (sizes) => {
    const networks = shuffled(sizes, sizes[0]!);
    const members = networks.map((_, i) => ({ member: `m${i}`, name: '', device: DEVICE, browser: i, rank: null }));
    const parts = sizes.map((_, network) => members.filter(({ browser }) => networks[browser] === network));
    const direct = parts.flatMap((part) => neighbours(part).map(([a, b]) => [a.member, b.member] as const));
    const failed = neighbours(parts).map(([a, b]) => [a[0]!.member, b[0]!.member] as const);
    const room = new Play({ ...OPEN, hasServerLinks: true }).state;
    const state = { ...room, direct, unlinked: failed, isTraining: true };
    expect(crossings(members, networks)).toBeGreaterThan(sizes[0]! > 3 ? sizes.length : 1);
    expect(crossings(orderOf(state, members).ring, networks)).toBe(sizes.length);
  },
);

/** Starts a class of tabs in these networks. */
function classIn(networks: readonly number[], seed: number, options: Partial<ClassOptions> = {}): ClassModel {
  const canReach = (a: string, b: string): boolean => networks[numberOf(a)] === networks[numberOf(b)];
  return new ClassModel({ seed, canReach, hasServerLinks: true, ...options }).start(networks.length);
}

/** Returns the longest time between two steps, in milliseconds. */
function longestStop({ steps, clock }: ClassModel): number {
  const times = [...steps, clock.now()];
  return Math.max(...times.slice(1).map((at, i) => at - times[i]!));
}

const SEEDS = Array.from({ length: 8 }, (_, i) => i + 1);

describe('networks without a path between them', () => {
  test.each([[[26, 4]], [[20, 10]], [[15, 15]], [[3, 3]], [[3, 2]], [[2, 2, 2]], [[5, 5, 5]]])(
    'of %j tabs train together within 6 s, and at last with as few links through the server as networks',
    (sizes) => {
      for (const seed of SEEDS) {
        const model = classIn(shuffled(sizes, seed), seed);
        expect(model.runUntil(() => model.begun.length > 0, 6 * SECOND)).toBe(true);
        expect(model.ring).toHaveLength(sizes.reduce((sum, size) => sum + size));
        model.runUntil(() => false, 50 * SECOND);
        expect(model.throughServer, `seed ${seed}`).toHaveLength(sizes.length);
        // The first generation, and one for each better order.
        expect(model.generations).toBeLessThanOrEqual(sizes.length === 2 ? 2 : 5);
        expect(longestStop(model)).toBeLessThan(3 * SECOND);
        expect(model.suspended).toEqual([]);
      }
    },
  );

  test('have two links between them when members join and leave', () => {
    const networks = shuffled([12, 12], 5);
    const model = classIn(networks, 5);
    model.runUntil(() => false, 30 * SECOND);
    for (let i = 24; i < 30; i++) {
      networks.push(i % 2);
      model.enter(`m${i}`);
      model.leave(`m${i - 24}`);
      const at = model.clock.now();
      expect(model.runUntil(() => model.trainsSince(at), 8 * SECOND)).toBe(true);
    }
    model.runUntil(() => false, 40 * SECOND);
    expect(model.ring).toHaveLength(24);
    expect(model.throughServer).toHaveLength(2);
  });

  test('are linked at once after a rank at the link between them has left', () => {
    const model = classIn(shuffled([8, 8], 3), 3);
    model.runUntil(() => false, 30 * SECOND);
    for (let i = 0; i < 4; i++) {
      model.leave(model.throughServer[0]![0]);
      const at = model.clock.now();
      expect(model.runUntil(() => model.trainsSince(at), 2.5 * SECOND)).toBe(true);
      model.runUntil(() => false, 8 * SECOND);
    }
    expect(model.throughServer).toHaveLength(2);
  });

  test.each([
    [7, 5],
    [15, 15],
    [26, 4],
  ])('of %i and %i tabs: the larger one trains without interruption if the server refuses to link them', (n, m) => {
    const model = classIn(shuffled([n, m], 1), 1, { areServerLinksRefused: true });
    expect(model.runUntil(() => model.steps.length > 0, 40 * SECOND)).toBe(true);
    expect(model.ring).toHaveLength(n);
    model.runUntil(() => false, 5 * MINUTE);
    expect(longestStop(model)).toBeLessThan(5 * SECOND);
  });
});

describe('a network that isolates all tabs', () => {
  test.each([2, 3, 4, 8, 30])('lets %i tabs train within 6 s, and changes their order twice at most', (n) => {
    const model = classIn(
      Array.from({ length: n }, (_, i) => i),
      n,
    );
    expect(model.runUntil(() => model.begun.length > 0, 6 * SECOND)).toBe(true);
    model.runUntil(() => false, 5 * MINUTE);
    expect(model.ring).toHaveLength(n);
    expect(model.generations).toBeLessThanOrEqual(3);
  });

  test('causes no further changes of the order while the class grows', () => {
    const networks = Array.from({ length: 20 }, (_, i) => i);
    const model = classIn(networks.slice(0, 12), 1, { canReach: () => false });
    model.runUntil(() => false, MINUTE);
    for (let i = 12; i < 16; i++) {
      model.enter(`m${i}`);
      model.runUntil(() => false, 30 * SECOND);
    }
    const { generations } = model;
    model.enter('m16');
    model.runUntil(() => false, MINUTE);
    expect(model.ring).toHaveLength(17);
    expect(model.generations).toBe(generations + 1);
  });
});

test('isolated tabs beside a network cause at most one further change of the order while the class grows', () => {
  const networks = shuffled([10, ...Array<number>(10).fill(1)], 2);
  const model = classIn(networks, 2);
  model.runUntil(() => false, 2 * MINUTE);
  for (let i = 0; i < 3; i++) {
    const { generations } = model;
    networks.push(100 + i);
    model.enter(`m${20 + i}`);
    model.runUntil(() => false, MINUTE);
    expect(model.ring).toHaveLength(21 + i);
    expect(model.generations).toBeLessThanOrEqual(generations + 2);
  }
});

describe('direct links that fail while ranks train', () => {
  test.each([2, 3, 8])('of %i ranks are replaced within 10 s, and come back in a later generation', (n) => {
    let isCut = false;
    const model = classIn(Array<number>(n).fill(0), n, { canReach: () => !isCut });
    model.runUntil(() => false, 20 * SECOND);
    expect(model.throughServer).toEqual([]);
    isCut = true;
    model.runUntil(() => false, MINUTE);
    isCut = false;
    expect(model.throughServer).toHaveLength(n === 2 ? 1 : n);
    expect(longestStop(model)).toBeLessThan(10 * SECOND);
    expect(model.suspended).toEqual([]);
    for (const member of ['new0', 'new1', 'new2']) {
      model.enter(member);
      model.runUntil(() => false, 30 * SECOND);
    }
    expect(model.ring).toHaveLength(n + 3);
    expect(model.throughServer).toEqual([]);
  });

  test('of a single rank do not lead to its suspension', () => {
    let isCut = false;
    const model = classIn(Array<number>(8).fill(0), 1, { canReach: (a, b) => !isCut || ![a, b].includes('m3') });
    model.runUntil(() => false, 20 * SECOND);
    isCut = true;
    model.runUntil(() => false, 5 * MINUTE);
    expect(model.ring).toHaveLength(8);
    expect(model.throughServer).toHaveLength(2);
    expect(model.suspended).toEqual([]);
    expect(longestStop(model)).toBeLessThan(10 * SECOND);
  });
});
