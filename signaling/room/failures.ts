/** Handles failures of ranks and links, and missed deadlines: decides which ranks are suspended. */
import type { ClientMessage } from '../../src/protocol/control.ts';
import type { RoomPhase } from '../../src/protocol/room.ts';
import { edgeKey, includesPair, keptApart, needsRelay, neighbours, type Pairs } from './edges.ts';
import { shouldStayLocked } from './ending.ts';
import { end, keepingState, requestNextGeneration, reform, retry, tryNewcomers } from './generations.ts';
import { aged, cleared, findingsOf, MAX_OUTAGES, namesOf, membersToSuspend, type Findings } from './faults.ts';
import { listInWords } from '../../src/util/text.ts';
import type { Complaint, Reason } from './records.ts';
import { linkedAfter, separateNetworks } from './networks.ts';
import { orderOf } from './ringOrder.ts';
import { lateBehind, works } from './pulses.ts';
import { nameMembers, networkAdvice } from './sentences.ts';
import { withFailedPairs } from './servedPairs.ts';
import {
  andThen,
  isOfRing,
  isRunOn,
  nodesOf,
  rankOf,
  noEffects,
  unready,
  withEffects,
  type RoomEffect,
  type RoomEvent,
  type RoomState,
  type Step,
} from './state.ts';
import { suspend } from './suspensions.ts';
import { enteringMs, enteringOf, AGE_FAULTS, LINKING_MS, SYNCING_MS } from './timers.ts';

/**
 * Milliseconds that the server waits for further reports of a failure. They come from the other end
 * of the link, or from other ranks that waited for the same rank.
 */
export const GATHER_MS = 1_500;

type Of<Type extends RoomEvent['type']> = Extract<RoomEvent, { type: Type }>;

export function failed(state: RoomState, event: Extract<ClientMessage, { type: 'failed' }> & { member: string }): Step {
  const { member, generation, message, scope } = event;
  const rank = rankOf(state, member);
  // If the rank itself has failed, for example because its GPU is lost, it would also fail in later
  // generations. So in an elastic run, its report about an earlier generation counts as well.
  const isDue =
    scope === 'rank' && nodesOf(state) !== null ? generation <= state.generation : generation === state.generation;
  if (!isDue || rank < 0) return noEffects(state);
  if (state.isRestoring && nodesOf(state) !== null) return noEffects(requestNextGeneration(state));
  const sentence = `${nameMembers(state.ring, [rank])} could not continue, so the run ended: ${message}`;
  if (nodesOf(state) === null || scope === 'run') return end(state, 'failed', sentence);
  return scope === 'generation'
    ? recordComplaint(state, member, { type: 'failed', message })
    : reform(unready(state, (m) => m === member));
}

/**
 * Handles a rank's report that links to other ranks broke, or that other ranks missed a
 * collective's deadline.
 */
export function onAccusation(state: RoomState, { type, member, generation, peers }: Of<'broken' | 'late'>): Step {
  const accused = peers.filter((peer) => isOfRing(state, generation, member, peer));
  if (accused.length === 0) return noEffects(state);
  if (state.isRestoring && nodesOf(state) !== null) {
    // A restart of the server breaks only links through it, so the pair had probably linked through
    // it.
    const pairs = type === 'broken' ? accused.map((peer) => [member, peer] as const) : [];
    return noEffects(requestNextGeneration(withFailedPairs(state, pairs)));
  }
  const named = type === 'late' ? lateBehind(state, member, accused) : accused;
  if (nodesOf(state) !== null) {
    // A rank that works is not recorded as late. But the generation has failed in any case.
    const late = type === 'late' ? named.filter((peer) => !works(state, peer)) : named;
    const who = nameMembers(
      state.ring,
      named.map((peer) => rankOf(state, peer)),
    );
    return recordComplaint(
      state,
      member,
      late.length > 0 ? { type, peers: late } : { type: 'failed', message: `${who} did not answer in time.` },
    );
  }
  const who = named.map((peer) => rankOf(state, peer));
  const both = nameMembers(state.ring, [rankOf(state, member), ...who]);
  const sentence =
    type === 'late'
      ? `${nameMembers(state.ring, who)} did not answer ${nameMembers(state.ring, [rankOf(state, member)])} in time, so the run ` +
        'ended. Check these tabs, and start the run again.'
      : state.phase === 'LINKING'
        ? `${both} could not connect to each other, so the run ended. ${networkAdvice(state)}`
        : `${both} lost the link between them, so the run ended. Start again with the others.`;
  return end(state, 'failed', sentence);
}

/**
 * Stores a member's first complaint; later ones are ignored. The complaints of all members are
 * judged together: when no further report is expected, or {@link GATHER_MS} after the first
 * complaint.
 */
function recordComplaint(state: RoomState, member: string, complaint: Complaint): Step {
  if (state.complaints.has(member)) return noEffects(state);
  const next = { ...state, complaints: new Map(state.complaints).set(member, complaint) };
  if (areAllReportsIn(next)) return judge(next, false);
  const { generation } = state;
  const isFirst = state.complaints.size === 0;
  const timer: RoomEffect = {
    type: 'setTimer',
    key: 'gathered',
    ms: GATHER_MS,
    event: { type: 'gathered', generation },
  };
  return { state: next, effects: isFirst ? [timer] : [] };
}

export function onGathered(state: RoomState, generation: number): Step {
  return state.generation === generation && state.complaints.size > 0 ? judge(state, false) : noEffects(state);
}

/**
 * Whether no further report is expected. A rank that is reported as late is not expected to report.
 */
function areAllReportsIn({ ring, members, complaints, reports }: RoomState): boolean {
  const silent = ring
    .map(({ member }) => member)
    .filter((one) => members.some(({ member }) => member === one) && !complaints.has(one) && !reports.has(one));
  const all = [...complaints.values()];
  const late = new Set(all.flatMap((one) => (one.type === 'late' ? one.peers : [])));
  if (silent.every((member) => late.has(member))) return true;
  // A member that has left sends no report. If all reports name only such members, no other report
  // is needed.
  const named = all.flatMap(namesOf);
  return named.length > 0 && named.every((peer) => !members.some(({ member }) => member === peer));
}

/**
 * Records why the generation failed, suspends members that caused the failure, and begins another
 * generation.
 */
function judge(state: RoomState, isDeadline: boolean): Step {
  // A rank that was computing could not report yet. So nobody is at fault, and no attempt is
  // counted.
  const isDelayed = state.ring.some(({ member }) => !state.reports.has(member) && works(state, member));
  if (state.phase === 'LINKING' && isDelayed) return reform({ ...state, complaints: new Map() });
  const findings = findingsOf(state, isDeadline);
  const { ring, complaints, reports, generation } = state;
  const linked = new Set([...complaints.keys(), ...reports.keys()].filter((member) => !findings.cutOff.has(member)));
  const known = state.phase === 'LINKING' ? cleared(state.faults, linked) : state.faults;
  const next: RoomState = {
    ...withFailedPairs(state, failedPairs(state)),
    ...(state.hasRelay && { unlinked: unlinkedAfter(state, findings.down) }),
    faults: [...known, ...findings.faults],
    linked: state.phase === 'LINKING' ? linkedAfter(state, findings.down) : [],
    complaints: new Map(),
    isTraining: state.isTraining && state.phase === 'LINKING',
  };
  const outages = next.faults.filter(({ kind }) => kind === 'outage').length;
  const why = reasonOf(state, findings);
  if (outages > MAX_OUTAGES) return end(next, 'failed', `The run ended after ${outages} failures in a row: ${why}`);
  const networks = separateNetworks(next);
  if (networks !== null && networks[0]!.length < (nodesOf(state)?.min ?? 0)) {
    const sizes = listInWords(networks.map(({ length }) => String(length)));
    const sentence = `The tabs are in networks without a path between them (${sizes} tabs), so the run ended.`;
    return end(next, 'failed', `${sentence} ${networkAdvice(state)}`);
  }
  const apart = (networks ?? []).slice(1).flat();
  const proposed = new Map([
    ...membersToSuspend(ring, next.faults, generation),
    ...apart.map(({ member }): [string, Reason] => [member, 'apart']),
  ]);
  // If ranks still train, they are linked to each other. So only newcomers can be at fault.
  const blamed = [...proposed].filter(([member]) => !next.isTraining || !state.membersWithState.has(member));
  const culprits = keepingState(state, ring, new Map(blamed));
  // If a rank reported nothing before the deadline although none of its links failed, its tab is
  // probably not responding. The rank is left out until it reports `ready` again.
  const hasReported = (member: string): boolean => complaints.has(member) || reports.has(member);
  const isDown = (member: string): boolean => findings.down.some((pair) => pair.includes(member));
  const responding = isDeadline
    ? unready(next, (one) => rankOf(next, one) >= 0 && !hasReported(one) && !isDown(one))
    : next;
  const suspended = culprits.size === 0 ? noEffects(responding) : suspend(responding, culprits);
  const isNamed = findings.faults.some(({ kind }) => kind === 'broken' || kind === 'late');
  // Only a failure without a known cause counts as a retry. The number of retries is limited.
  const hasCause = culprits.size > 0 || (state.phase === 'RUNNING' && isNamed);
  const again = (rest: RoomState): Step => {
    if (networks === null) return hasCause ? reform(rest) : retry(rest, why);
    // The next generation has the members of the first network. All others, also newcomers whose
    // network is unknown, are tried while that generation trains.
    const others = rest.members.filter(({ member }) => !networks[0]!.some((one) => one.member === member));
    return reform({ ...rest, retries: 0 }, new Set(others.map(({ member }) => member)));
  };
  const remembers = state.faults.length === 0 && next.faults.length > 0 ? [AGE_FAULTS] : [];
  return withEffects(andThen(suspended, again), ...remembers);
}

/**
 * Returns the pairs that connect over the relay from now on: their direct link has failed, now
 * (`down`) or earlier. Pairs that failed over the relay, too, are left out. A member in two pairs
 * uses the relay for all its links, so it gets no new pairs. A member in one pair can get two more
 * in one failed generation, so no member is in more than three.
 */
function unlinkedAfter({ unlinked, relayed, hidden }: RoomState, down: Pairs): Pairs {
  const unhelped = down.filter((pair) => includesPair(relayed, pair));
  const direct = down.filter((pair) => !pair.some((member) => needsRelay(unlinked, member)));
  const known = [...unlinked, ...direct].filter((pair) => !includesPair(unhelped, pair));
  const pairs = new Map(known.map((pair) => [edgeKey(...pair), pair]));
  // A pair is dropped when both of its members have left. As long as one of the two is present, the
  // pair says something about the network of that member.
  return [...pairs.values()].filter((pair) => pair.some((member) => hidden.has(member)));
}

/**
 * Returns the neighbours whose link broke or could not be opened. A rank that has closed its tab
 * breaks no link. Two ranks that report nothing are probably busy.
 */
function failedPairs({ ring, complaints, hidden }: RoomState): Pairs {
  const names = (by: string, about: string): boolean => {
    const complaint = complaints.get(by);
    return complaint?.type === 'broken' && complaint.peers.includes(about);
  };
  return neighbours(ring)
    .map(([a, b]) => [a.member, b.member] as const)
    .filter(([a, b]) => hidden.has(a) && hidden.has(b) && (names(a, b) || names(b, a)));
}

/** Returns the reason why a generation failed, as a text for users. */
function reasonOf(state: RoomState, { down, cutOff }: Findings): string {
  const { ring, complaints } = state;
  const ranksOf = (ids: readonly string[]): number[] => ids.map((id) => rankOf(state, id)).sort((a, b) => a - b);
  if (down.length > 0) {
    const advice = networkAdvice(state);
    if (down.length === neighbours(ring).length) {
      const who = ring.length === 2 ? `${nameMembers(ring, [0, 1])} could not connect to each other` : null;
      return `${who ?? `none of the ${ring.length} tabs could connect to its neighbours`}. ${advice}`;
    }
    const [pair] = down;
    const who = cutOff.size > 0 ? `${nameMembers(ring, ranksOf([...cutOff]))} could not connect to any rank` : null;
    return `${who ?? `${nameMembers(ring, ranksOf(pair!))} could not connect to each other`}. ${advice}`;
  }
  const named = [...new Set([...complaints.values()].flatMap(namesOf))];
  if (named.length > 0) return `${nameMembers(ring, ranksOf(named))} lost links, or did not answer in time.`;
  const [first] = [...complaints.values()].flatMap((one) => (one.type === 'failed' ? [one.message] : []));
  return first ?? 'the generation failed.';
}

/**
 * Called when the time for entering SYNCING is over for some ranks. Ranks that have not entered
 * SYNCING by then are stuck in their work of the previous generation: they are suspended, and the
 * others continue without them. In a room with a fixed world, the run ends.
 */
export function onEnteringTimeout(state: RoomState, generation: number, ms: number): Step {
  if (state.phase !== 'SYNCING' || state.generation !== generation) return noEffects(state);
  const { ring, begun, members } = state;
  const here = new Set(members.map(({ member }) => member));
  const idle = ring.map(({ member }) => member).filter((member) => !begun.has(member));
  const stuck = idle.filter((member) => enteringMs(state, member) <= ms && here.has(member) && !works(state, member));
  // If no rank has entered SYNCING, no single rank is at fault. The deadline of SYNCING then ends
  // the phase.
  if (stuck.length === 0 || idle.length === ring.length || state.isRestoring) {
    return { state, effects: enteringOf(state, ms) };
  }
  if (nodesOf(state) !== null) {
    return andThen(suspend(state, new Map(stuck.map((member) => [member, 'stuck'] as const))), reform);
  }
  const who = nameMembers(
    ring,
    stuck.map((member) => rankOf(state, member)),
  );
  const sentence = `${who} did not begin within ${ms / 1000} s, so the run ended. Reload those pages and start again.`;
  return end(state, 'failed', sentence);
}

/**
 * Separates the two ends of a link that slows down the ring, if a suitable order exists. This is
 * done only once for each member. If the member's next link is slow as well, its own network is
 * slow, and no order helps.
 */
export function slow(state: RoomState, { member, generation, peer }: Of<'slow'>): Step {
  const { phase, ring, separated, served, isRestoring, slowReporters } = state;
  const isDue = phase === 'RUNNING' && isOfRing(state, generation, member, peer) && !isRestoring;
  const isNew = !separated.some((pair) => pair.includes(member) || pair.includes(peer));
  const pair = [member, peer] as const;
  // In a ring of three or fewer, every order has the same neighbours. In a large ring, the search
  // for an order takes milliseconds, so only the first report of each member starts one. In a
  // different order, a different pair would need the server instead of this one.
  const isServed = includesPair(served, pair);
  const canHelp = ring.length > 3 && keptApart(ring, [pair]).length === 0 && !isServed && !slowReporters.has(member);
  if (nodesOf(state) === null || !isDue || !isNew || !canHelp) return noEffects(state);
  const next = { ...state, separated: [...separated, pair] };
  const order = orderOf(next, ring);
  const helps = keptApart(order.ring, [pair]).length > 0 && order.culprits.length === 0;
  return helps ? reform(next) : noEffects({ ...state, slowReporters: new Set(slowReporters).add(member) });
}

export function onDeadline(state: RoomState, generation: number, phase: RoomPhase): Step {
  if (!isRunOn(state) || state.generation !== generation || state.phase !== phase) return noEffects(state);
  const missing = state.ring.map((_, rank) => rank).filter((rank) => !state.reports.has(state.ring[rank]!.member));
  const what =
    phase === 'LINKING'
      ? `did not reach the neighbours within ${LINKING_MS / 1000} s`
      : `made no progress and reported no state for ${SYNCING_MS / 1000} s`;
  const who = `${nameMembers(state.ring, missing)} ${what}`;
  if (nodesOf(state) === null) {
    return end(state, 'failed', `${who}, so the run ended. Reload those pages and start again.`);
  }
  const late = new Set(missing.map((rank) => state.ring[rank]!.member));
  if (phase === 'LINKING') {
    // If two neighbours have not reported, the link between them is probably missing, and both wait
    // for it.
    const isPair = neighbours(state.ring).some((pair) => pair.every(({ member }) => late.has(member)));
    if (isPair || state.complaints.size > 0) return judge(state, true);
  }
  // If no rank has reported, a single rank may be stuck in a collective while the others wait for
  // it. It is unknown which one, so no rank is left out.
  if (missing.length === state.ring.length) return retry(state, `${who}.`);
  const others = unready(state, (member) => late.has(member));
  const entries = missing.map((rank) => state.ring[rank]!);
  const tried = phase === 'SYNCING' ? tryNewcomers(others, entries) : null;
  return andThen(tried ?? noEffects(others), reform);
}

export function onAbandoned(state: RoomState): Step {
  if (state.phase !== 'PAUSED') return noEffects(state);
  const open = { ...state, isLocked: shouldStayLocked(state) };
  return end(
    open,
    'failed',
    'All members with the state of this run have left, so the run has ended. Start a new run.',
  );
}

export function onAgeFaults(state: RoomState): Step {
  const faults = aged(state.faults);
  return { state: { ...state, faults }, effects: faults.length > 0 ? [AGE_FAULTS] : [] };
}
