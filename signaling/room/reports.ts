/** Handles the reports of a generation's members: linked, direct, synced, finished. */
import type { RoomPhase } from '../../src/protocol/room.ts';
import { dissenters, mostFrequentVote } from '../../src/util/mostFrequentVote.ts';
import { cleared, withoutOutages } from './faults.ts';
import { end, retry } from './generations.ts';
import { nameMembers } from './sentences.ts';
import { upgradesOf, withDirect, withRoutes } from './servedPairs.ts';
import { roomMessage } from './roomMessage.ts';
import {
  change,
  isOfRing,
  nodesOf,
  rankOf,
  noEffects,
  toRing,
  type RoomEffect,
  type RoomEvent,
  type RoomState,
  type Step,
} from './state.ts';
import { deadlineOf, enteringOf, GROW_LATER, SYNCING_MS } from './timers.ts';

/** Records that a rank has linked to its neighbours, and which of these links use the server. */
export function onLinked(
  state: RoomState,
  { member, generation, served = [] }: Extract<RoomEvent, { type: 'linked' }>,
): Step {
  const isNew = isDue(state, member, generation, 'LINKING') && !state.reports.has(member);
  return report(isNew ? withRoutes(state, member, served) : state, member, generation, 'LINKING', 'linked');
}

/**
 * Records that two ranks have a direct connection beside their link through the server. If they
 * train, a generation that uses this connection begins soon. Pairs that report before then change
 * in the same generation.
 */
export function onDirect(state: RoomState, { member, generation, peer }: Extract<RoomEvent, { type: 'direct' }>): Step {
  if (!isOfRing(state, generation, member, peer)) return noEffects(state);
  const next = withDirect(state, [member, peer]);
  const isFirst = upgradesOf(state).length === 0 && upgradesOf(next).length > 0;
  const begins = isFirst && state.phase === 'RUNNING' && nodesOf(state) !== null;
  return { state: next, effects: begins ? [GROW_LATER] : [] };
}

/** Records that a rank has compared states and has the elected state. */
export function onSynced(
  state: RoomState,
  { member, generation, step, stateHash }: Extract<RoomEvent, { type: 'synced' }>,
): Step {
  const next = report(state, member, generation, 'SYNCING', `step ${step}, state ${stateHash}`);
  // The phase becomes RUNNING only when the reports of all ranks are equal. So all ranks have
  // reached `step`.
  const begins = state.phase === 'SYNCING' && next.state.phase === 'RUNNING';
  return begins && step > state.beganAt ? { ...next, state: withProgress(next.state, step) } : next;
}

/**
 * Removes earlier outages from the record, because the run has made progress since they occurred.
 */
function withProgress(state: RoomState, step: number): RoomState {
  return { ...state, beganAt: step, faults: withoutOutages(state.faults) };
}

export function report(state: RoomState, member: string, generation: number, phase: RoomPhase, text: string): Step {
  if (!isDue(state, member, generation, phase) || state.reports.has(member)) return noEffects(state);
  const begun = phase === 'SYNCING' ? enter(state, member) : state;
  const next = { ...begun, reports: new Map(state.reports).set(member, text) };
  return next.reports.size < next.ring.length ? noEffects(next) : beginNextPhase(next);
}

/** Whether the room is in this phase of this generation, and `member` is one of its ranks. */
function isDue(state: RoomState, member: string, generation: number, phase: RoomPhase): boolean {
  return state.phase === phase && state.generation === generation && rankOf(state, member) >= 0;
}

/** Extends the deadline, because a rank has begun to compare states or makes progress. */
export function extendSyncing(state: RoomState, member: string, generation: number): Step {
  const isExpected = isDue(state, member, generation, 'SYNCING');
  return isExpected ? { state: enter(state, member), effects: [deadlineOf(state, SYNCING_MS)] } : noEffects(state);
}

function enter(state: RoomState, member: string): RoomState {
  return change({ ...state, begun: new Set(state.begun).add(member) }, member, { hasEntered: true });
}

/** Begins the next phase, because all ranks have reported. */
function beginNextPhase(state: RoomState): Step {
  const differing = disagreement(state);
  if (differing !== null) {
    const isOpen = state.phase === 'SYNCING' && nodesOf(state) !== null;
    return isOpen ? retry(state, differing) : end(state, 'failed', differing);
  }
  const { generation } = state;
  const reports = new Map<string, string>();
  if (state.phase === 'LINKING') {
    // A link over a relay proves nothing about the network of its ends, so ranks with relayed links
    // stay suspects.
    const shown = state.ring.filter(({ member }) => !state.relayed.some((pair) => pair.includes(member)));
    const faults = cleared(state.faults, new Set(shown.map(({ member }) => member)));
    const next: RoomState = {
      ...state,
      phase: 'SYNCING',
      reports,
      complaints: new Map(),
      faults,
      linked: [],
      isTraining: false,
    };
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
    const membersWithState = new Set(state.ring.map(({ member }) => member));
    let next: RoomState = {
      ...state,
      phase: 'RUNNING',
      reports,
      complaints: new Map(),
      membersWithState,
      retries: 0,
      isTraining: true,
    };
    const isOpen = nodesOf(next) !== null;
    next = { ...next, isCooling: isOpen };
    for (const { member } of next.ring) next = change(next, member, { stateOfRun: next.run });
    // From here on there is no deadline: ranks watch each other, and need the server only for links
    // through it.
    return {
      state: next,
      effects: [
        toRing(next, { type: 'go', generation }),
        ...(['deadline', 'gathered', 'entering'] as const).map((key): RoomEffect => ({ type: 'clearTimer', key })),
        ...(isOpen ? [GROW_LATER] : []),
        roomMessage(next),
      ],
    };
  }
  const ranks =
    state.ring.length === 1
      ? 'Its only rank has reported its final state.'
      : `All ${state.ring.length} ranks have reported the same final state.`;
  return end(state, 'finished', `The run has finished. ${ranks}`);
}

/**
 * Returns a sentence that names the ranks whose report differs from the majority's, or `null` if
 * all reports are equal. In a tie, rank 0 decides.
 */
function disagreement({ ring, reports, phase }: RoomState): string | null {
  const texts = ring.map((m) => reports.get(m.member) ?? '');
  const odds = dissenters(texts);
  if (odds.length === 0) return null;
  const when = phase === 'SYNCING' ? 'began' : 'ended';
  return (
    `${nameMembers(ring, odds)} ${when} with a different state than the others (${texts[odds[0]!]}; the others: ${mostFrequentVote(texts)}), ` +
    'so the run is invalid. Reload those pages and start again.'
  );
}
