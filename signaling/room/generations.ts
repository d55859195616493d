/**
 * A run's generations: how one begins, what its members report, and what follows when somebody is
 * missing.
 */
import type { RoomPhase, RosterEntry } from '../../src/protocol/room.ts';
import type { ServerMessage } from '../../src/protocol/control.ts';
import { seats } from '../../src/protocol/seating.ts';
import { dissenters, majority } from '../../src/util/majority.ts';
import { isPair, keptApart, needsRelay, neighbours, orderAround, TO_PART, type Order } from './edges.ts';
import { aged, breaksOf, cleared, isProven, MIN_ACCUSERS, suspectsOf, timesLate, unlinkedPairs } from './faults.ts';
import { nameRanks } from './sentences.ts';
import { isOnProbation, suspend } from './suspensions.ts';
import {
  andThen,
  change,
  everyone,
  isSuspended,
  keepsLock,
  nodesOf,
  presentMembers,
  rankOf,
  readyMembers,
  roomMessage,
  startsWith,
  stay,
  tellRoom,
  toRing,
  waitingFor,
  withEffects,
  type Ended,
  type RoomEffect,
  type RoomState,
  type Step,
} from './state.ts';

/**
 * Milliseconds all members have to link: Chromium gives up a connection attempt after 16 s, people
 * after less.
 */
export const LINKING_MS = 15_000;
/**
 * Milliseconds all members have to build the model, share parameters and report: shaders compile
 * for seconds.
 */
export const SYNCING_MS = 120_000;
/**
 * Milliseconds that a rank may take to end what it did in the generation before and begin to
 * compare states: a little longer than a collective may take; less where others have waited for it
 * once before, or more than once.
 */
export const ENTERING_MS = [65_000, 20_000, 2_000] as const;
/**
 * Milliseconds between a generation's first step and the next newcomers: each growth costs all
 * ranks a moment.
 */
export const COOLING_MS = 3_000;
/**
 * Milliseconds after which faults are a little older. They are remembered for four to five times as
 * long, which is longer than an generation can take to fail by a collective's deadline.
 */
export const FORGIVE_MS = 60_000;
/**
 * Milliseconds a run waits for a member that has its state: all may have lost the network for a
 * moment.
 */
export const ABANDONED_MS = 60_000;
/** Generations tried in a row with the same members before the run is given up. */
export const MAX_RETRIES = 5;

const GENERATION_OVER: readonly RoomEffect[] = (['deadline', 'gathered', 'entering', 'grow'] as const).map((key) => ({
  type: 'clearTimer',
  key,
}));
const NO_TIMERS: readonly RoomEffect[] = [...GENERATION_OVER, { type: 'clearTimer', key: 'abandoned' }];

/**
 * A room as it has become: starts, grows or goes on by itself where it can, else everybody is told.
 */
export function settle(state: RoomState): Step {
  // Others may be training: what this room believes it could do, it must not do beside them.
  if (state.isDoubtful && state.ring.length === 0) return tellRoom(state);
  switch (state.phase) {
    case 'FORMING': {
      const enough = startsWith(state);
      const present = enough === null ? undefined : choicesOf(state).find(({ length }) => length >= enough);
      if (enough === null || present === undefined) return tellRoom(state);
      // No more than it waited for: their ranks are all below `startAt`, so they fit.
      return beginRun(state, seated(state, present.slice(0, enough)));
    }
    case 'RUNNING':
      // Of a room that was made anew: its members have not heard of the pause.
      return state.isHeld && !state.isDoubtful ? reform(state) : grow(state);
    case 'PAUSED':
      return reform(state);
    case 'LINKING':
    case 'SYNCING':
      return tellRoom(state);
    default:
      return state.phase satisfies never;
  }
}

/**
 * The members that may begin a run, the best choice first: others need not wait while those who
 * were suspended are tried. Each choice has all members of the one before.
 */
export function choicesOf(state: RoomState): RosterEntry[][] {
  const ready = readyMembers(state);
  const known = ready.filter(({ member }) => nodesOf(state) === null || !isOnProbation(state, member));
  const suspended = presentMembers(state).filter(({ member }) => isSuspended(state, member));
  return [known, ready, [...ready, ...suspended]];
}

/**
 * The ring of a new run. Who asked for a rank has it, the others come in the order given, as many
 * as may be.
 */
export function seated(state: RoomState, members: readonly RosterEntry[]): RosterEntry[] {
  const ring = seats(members).filter((m) => m !== null);
  return ring.slice(0, nodesOf(state)?.max);
}

/**
 * A new run with a ring of members that are ready and fit together. Who is left out stays in the
 * room and waits.
 */
export function beginRun(state: RoomState, ring: readonly RosterEntry[]): Step {
  const run = Math.max(state.run + 1, state.numbersFrom);
  const fresh = {
    startAt: null,
    holders: new Set<string>(),
    retries: 0,
    isCooling: false,
    isHeld: false,
    faults: [],
    unlinked: [],
    parted: [],
  };
  return beginGeneration({ ...state, ...fresh, run }, ring, []);
}

/**
 * Somebody came, went, or cannot be reached: another generation of all that are ready, ranks of the
 * last one first; or a pause, where they are too few or the host holds the run. `later`: newcomers
 * that need not come in now. So are those who were suspended before, unless this is for newcomers:
 * while these are tried the others train.
 */
export function reform(state: RoomState, later: ReadonlySet<string> = new Set(), isGrowth = false): Step {
  const nodes = nodesOf(state);
  if (nodes === null) return tellRoom(state);
  const { members: here, holders, hidden, run } = state;
  const hasLatest = ({ member }: RosterEntry): boolean => holders.has(member) && hidden.get(member)?.holds === run;
  const mayHaveLatest = (one: RosterEntry): boolean =>
    hasLatest(one) || (holders.has(one.member) && hidden.get(one.member)?.holds === undefined);
  // A rank may well be back in time, and a step ahead of the others; a newcomer that is away is
  // waited for by nobody.
  const waiting = here.filter((one) => mayHaveLatest(one) && !isSuspended(state, one.member));
  const before = state.phase === 'PAUSED' ? waiting : state.ring;
  const stayed = before.flatMap(({ member }) => here.filter((m) => m.member === member && m.device));
  const came = newcomers(state).filter((m) => !stayed.includes(m));
  const all = [...stayed, ...came];
  const isDoubtful = (one: RosterEntry): boolean => !isGrowth && came.includes(one) && isOnProbation(state, one.member);
  const sooner = all.filter((one) => !later.has(one.member) && !isDoubtful(one));
  const members = (sooner.length < nodes.min ? all : sooner).slice(0, nodes.max);
  const hasState = members.some(hasLatest);
  // A run that has not trained yet needs no state to go on.
  if (state.isHeld) return pause(state, hasState || (holders.size === 0 && members.length > 0));
  const { ring, relayed, culprits } = orderOf(state, members);
  if (culprits.length > 0) {
    const reasons = new Map(culprits.map(({ member }) => [member, 'unstable' as const]));
    return andThen(suspend({ ...state, retries: 0 }, reasons), (next) => reform(next, later, isGrowth));
  }
  if (members.length < nodes.min || (holders.size > 0 && !hasState)) return pause(state, hasState);
  return beginGeneration(state, ring, relayed);
}

/**
 * An order for these members, after what is known of their links. Only members against whom enough
 * is proven have to go; where there is no order without a broken link, the ring tries it again.
 */
export function orderOf(state: RoomState, members: readonly RosterEntry[], parted = state.parted): Order {
  const { faults, hasRelay, unlinked } = state;
  const suspects = suspectsOf(faults);
  const doubtful = members.filter(({ member }) => suspects.has(member));
  // Beside a rank that others can reach it shows whose fault it was.
  const apart = doubtful.flatMap((a, i) =>
    doubtful.slice(i + 1).flatMap((b) => (a.browser === b.browser ? [] : [[a.member, b.member] as const])),
  );
  // A relay connects them where they are. Pairs that nobody has tried may not link either.
  const better = [...parted, ...(hasRelay ? [] : unlinkedPairs(faults)), ...apart];
  const breaks = breaksOf(faults);
  const order = orderAround(members, breaks, hasRelay, better);
  const culprits = members.length > 2 ? order.culprits.filter(({ member }) => isProven(faults, member)) : [];
  // Else its broken links are tried as they are.
  const bearable = new Map([...breaks].map(([key]) => [key, hasRelay ? TO_PART : 0]));
  const { ring, relayed } = order.culprits.length === 0 ? order : orderAround(members, bearable, hasRelay, better);
  const all = new Map(relayed.map((pair) => [pair.join(' '), pair]));
  for (const [a, b] of hasRelay ? neighbours(ring) : []) {
    const pair: [string, string] = [a.member, b.member];
    // Tabs of one browser need no network.
    const isNeeded =
      a.browser !== b.browser && pair.some((member) => suspects.has(member) || needsRelay(unlinked, member));
    if (isNeeded || isPair(unlinked, a, b)) all.set(pair.join(' '), pair);
  }
  return { ring, relayed: [...all.values()], culprits };
}

/** The same members once more: nobody is to blame, but this generation cannot go on. */
export function retry(state: RoomState, why: string): Step {
  if (state.retries < MAX_RETRIES) return reform({ ...state, retries: state.retries + 1 });
  const { ring, holders } = state;
  const untried = ring.filter(({ member }) => holders.size > 0 && !holders.has(member));
  if (untried.length > 0 && untried.length < ring.length) {
    // The others trained without them.
    const reasons = new Map(untried.map(({ member }) => [member, 'failing' as const]));
    return andThen(suspend({ ...state, retries: 0 }, reasons), reform);
  }
  return end(state, 'failed', `The run ended after ${MAX_RETRIES} attempts to go on: ${why}`);
}

function newcomers(state: RoomState): RosterEntry[] {
  return readyMembers(state).filter(({ member }) => rankOf(state, member) < 0);
}

/** Lets newcomers in, unless others have just come. */
function grow(state: RoomState): Step {
  const nodes = nodesOf(state);
  if (nodes === null || state.isCooling || state.isDoubtful || state.ring.length >= nodes.max) return tellRoom(state);
  return newcomers(state).length > 0 ? reform({ ...state, retries: 0 }, new Set(), true) : tellRoom(state);
}

export function onGrow(state: RoomState): Step {
  const next = { ...state, isCooling: false };
  return state.phase === 'RUNNING' ? grow(next) : stay(next);
}

function beginGeneration(state: RoomState, ring: readonly RosterEntry[], relayed: readonly [string, string][]): Step {
  const generation = Math.max(latestGeneration(state) + 1, state.numbersFrom);
  let next: RoomState = {
    ...{ ...state, phase: 'LINKING', generation, ring, relayed, reports: new Map(), complaints: new Map() },
    ...{ begun: new Set<string>(), isDoubtful: false, isAbandoned: false },
  };
  for (const { member } of ring) next = change(next, member, { hasRun: true, isSuspended: false });
  return {
    state: next,
    effects: [...NO_TIMERS, roomMessage(next), toRing(next, prepareOf(next)), deadlineOf(next, LINKING_MS)],
  };
}

/** Highest generation that any member is known to have heard of. */
function latestGeneration({ generation, heardOf }: RoomState): number {
  return Math.max(generation, heardOf);
}

/**
 * How long a rank may take to begin to compare states: the least time only where two others said
 * twice that it was late. Of two ranks there is one other.
 */
export function enteringMs({ faults, ring }: RoomState, member: string): number {
  const accusers = Math.min(MIN_ACCUSERS, ring.length - 1);
  const least = timesLate(faults, member, accusers) > 1 ? 2 : 1;
  return ENTERING_MS[Math.min(timesLate(faults, member), least)]!;
}

/** The timer for the next ranks whose time to begin is up, `ms` after all were linked. */
export function enteringOf(state: RoomState, ms: number): RoomEffect[] {
  const { ring, begun, generation } = state;
  const waiting = ring.map(({ member }) => member).filter((member) => ring.length > 1 && !begun.has(member));
  const times = waiting.map((member) => enteringMs(state, member)).filter((one) => one > ms);
  const next = Math.min(...times);
  const event = { type: 'entering', generation, ms: next } as const;
  return times.length === 0 ? [] : [{ type: 'setTimer', key: 'entering', ms: next - ms, event }];
}

function deadlineOf({ generation, phase }: RoomState, ms: number): RoomEffect {
  return { type: 'setTimer', key: 'deadline', ms, event: { type: 'deadline', generation, phase } };
}

/** The latest generation, as its members hear of it. */
export function prepareOf({ generation, run, ring, job, relayed, parted }: RoomState): ServerMessage {
  const kept = keptApart(ring, parted);
  return {
    type: 'prepare',
    generation,
    run,
    members: [...ring],
    job,
    relayed: relayed.map(([a, b]) => [a, b]),
    parted: kept,
  };
}

export function pauseOf(state: RoomState): ServerMessage {
  return { type: 'pause', run: state.run, generation: latestGeneration(state), waitingFor: waitingFor(state) };
}

function pause(state: RoomState, hasState: boolean): Step {
  const isAbandoned = !hasState;
  const paused: RoomState = {
    ...state,
    phase: 'PAUSED',
    ring: [],
    reports: new Map(),
    complaints: new Map(),
    retries: 0,
    isAbandoned,
    isDoubtful: false,
  };
  const effects: RoomEffect[] = [...(isAbandoned ? GENERATION_OVER : NO_TIMERS), roomMessage(paused)];
  // However many come and go meanwhile: it is not put off.
  if (isAbandoned && !state.isAbandoned) {
    effects.push({ type: 'setTimer', key: 'abandoned', ms: ABANDONED_MS, event: { type: 'abandoned' } });
  }
  if (state.phase !== 'PAUSED') {
    // To those as well who are no ranks any more, and still believe it.
    effects.push({ type: 'send', to: paused.members.map((m) => m.member), message: pauseOf(paused) });
  }
  return { state: paused, effects };
}

/** In a room that is paused. */
export function tellPause(state: RoomState): Step {
  if (state.phase !== 'PAUSED' || state.isDoubtful) return stay(state);
  const to = state.members.map((m) => m.member);
  return { state, effects: [{ type: 'send', to, message: pauseOf(state) }] };
}

export function onAbandoned(state: RoomState): Step {
  if (state.phase !== 'PAUSED') return stay(state);
  const open = { ...state, isLocked: keepsLock(state) };
  return end(open, 'failed', 'Everybody who had the state of this run has left, so it is over. Start again.');
}

export function onForgive(state: RoomState): Step {
  const faults = aged(state.faults);
  return { state: { ...state, faults }, effects: faults.length > 0 ? [FORGIVE] : [] };
}

export const FORGIVE: RoomEffect = { type: 'setTimer', key: 'forgive', ms: FORGIVE_MS, event: { type: 'forgive' } };

export function report(state: RoomState, member: string, generation: number, phase: RoomPhase, said: string): Step {
  const isDue = state.phase === phase && state.generation === generation && rankOf(state, member) >= 0;
  if (!isDue || state.reports.has(member)) return stay(state);
  const begun = phase === 'SYNCING' ? enter(state, member) : state;
  const next = { ...begun, reports: new Map(state.reports).set(member, said) };
  return next.reports.size < next.ring.length ? stay(next) : advance(next);
}

/** A rank has begun to compare states, or gets on, and is not through with it. */
export function allowMore(state: RoomState, member: string, generation: number): Step {
  const isDue = state.phase === 'SYNCING' && state.generation === generation && rankOf(state, member) >= 0;
  return isDue ? { state: enter(state, member), effects: [deadlineOf(state, SYNCING_MS)] } : stay(state);
}

function enter(state: RoomState, member: string): RoomState {
  return change({ ...state, begun: new Set(state.begun).add(member) }, member, { hasEntered: true });
}

/** Everyone has reported. */
function advance(state: RoomState): Step {
  const differing = disagreement(state);
  if (differing !== null) {
    const isOpen = state.phase === 'SYNCING' && nodesOf(state) !== null;
    return isOpen ? retry(state, differing) : end(state, 'failed', differing);
  }
  const { generation } = state;
  const reports = new Map<string, string>();
  if (state.phase === 'LINKING') {
    // Over a relay nothing is shown.
    const shown = state.ring.filter(({ member }) => !state.relayed.some((pair) => pair.includes(member)));
    const faults = cleared(state.faults, new Set(shown.map(({ member }) => member)));
    const next: RoomState = { ...state, phase: 'SYNCING', reports, complaints: new Map(), faults };
    return {
      state: next,
      effects: [
        { type: 'clearTimer', key: 'gathered' },
        toRing(next, { type: 'sync', generation }),
        deadlineOf(next, SYNCING_MS),
        ...enteringOf(next, 0),
        roomMessage(next),
      ],
    };
  }
  if (state.phase === 'SYNCING') {
    const holders = new Set(state.ring.map(({ member }) => member));
    let next: RoomState = { ...state, phase: 'RUNNING', reports, complaints: new Map(), holders, retries: 0 };
    const isOpen = nodesOf(next) !== null;
    next = { ...next, isCooling: isOpen };
    for (const { member } of next.ring) next = change(next, member, { holds: next.run });
    // No deadline from here on: ranks watch each other, and the ring needs no server.
    return {
      state: next,
      effects: [
        toRing(next, { type: 'go', generation }),
        ...(['deadline', 'gathered', 'entering'] as const).map((key): RoomEffect => ({ type: 'clearTimer', key })),
        ...(isOpen ? [{ type: 'setTimer', key: 'grow', ms: COOLING_MS, event: { type: 'grow' } } as const] : []),
        roomMessage(next),
      ],
    };
  }
  const ranks = state.ring.length === 1 ? 'Its one rank has' : `All ${state.ring.length} ranks have`;
  return end(state, 'finished', `The run has finished. ${ranks} the same state.`);
}

/**
 * The ranks that reported something else than most did (rank 0's word counts in a draw), as a
 * sentence.
 */
function disagreement({ ring, reports, phase }: RoomState): string | null {
  const said = ring.map((m) => reports.get(m.member) ?? '');
  const odds = dissenters(said);
  if (odds.length === 0) return null;
  const when = phase === 'SYNCING' ? 'began' : 'ended';
  return (
    `${nameRanks(ring, odds)} ${when} with another state than the others (${said[odds[0]!]}; the others: ${majority(said)}), ` +
    'so the run is void. Reload there and start again.'
  );
}

/**
 * While members of a restored room are still on their way back: another generation is due once they
 * are here.
 */
export function needAnother(state: RoomState): RoomState {
  return { ...state, heardOf: Math.max(state.heardOf, state.generation + 1) };
}

/**
 * The run is over; the room waits for the next, and begins it at once where it starts by itself.
 */
export function end(state: RoomState, outcome: Ended['outcome'], message: string): Step {
  return andThen(over({ ...state, isDoubtful: false }, outcome, message), settle);
}

export function over(state: RoomState, outcome: Ended['outcome'], message: string): Step {
  const ended: Ended = { run: state.run, outcome, message: message.slice(0, 1200) };
  const to = everyone(state);
  const news: RoomEffect[] = to.length === 0 ? [] : [{ type: 'send', to, message: { type: 'ended', ...ended } }];
  return withEffects(stay(backToForming({ ...state, ended })), ...NO_TIMERS, ...news);
}

/**
 * No generation is on. Once all who ran have left, those who are there or come are a new world,
 * which starts by itself again: groups that are made anew in the same room, or the tabs of a run
 * that is tried once more.
 */
export function backToForming(state: RoomState): RoomState {
  const isFresh = [...state.hidden.values()].every(({ hasRun }) => !hasRun);
  const startAt = isFresh ? state.worldSize : state.startAt;
  return {
    ...{ ...state, phase: 'FORMING', startAt, ring: [], reports: new Map(), complaints: new Map(), begun: new Set() },
    ...{ holders: new Set(), isAbandoned: false, isCooling: false, isHeld: false, retries: 0 },
  };
}
