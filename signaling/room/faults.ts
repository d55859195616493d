/**
 * Evaluates the ranks' reports about each other. A report shows only one side. So a rank is judged
 * by all reports about it, by whether the reporters linked to other ranks, and by the number of
 * generations with such reports. The rules are in docs/adr/0016.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';
import { edgeKey, includesPair, neighbours, type Breaks, type Pairs } from './edges.ts';
import type { Complaint, Fault, Faults, Reason } from './records.ts';
import { browserOf, type RoomState } from './state.ts';

/**
 * A member is suspended after this number of consecutive LINKING phases in which it linked to no
 * other member, if enough other members report it. A single such phase may be bad luck.
 */
const CUT_OFF_GENERATIONS = 2;
/**
 * Number of members that must report another member before that member is suspended. So no single
 * member can cause the suspension of another one.
 */
export const MIN_ACCUSERS = 2;
/**
 * If this number of members report failed links to the same member, that member is suspended, even
 * if it links to others.
 */
const UNSTABLE_ACCUSERS = 4;
/**
 * A member is suspended after this number of generations in which only this member reported a
 * fault, and no other member confirmed the report.
 */
const MAX_ALONE = 5;
/**
 * Two ages of a fault, in ageing intervals. From the age `PAST` on, a break no longer changes the
 * order of the ring. At the age `FORGOTTEN`, a fault is removed from the record.
 */
const [PAST, FORGOTTEN] = [2, 5];
/** Maximum number of outages without a completed step in between. After one more, the run ends. */
export const MAX_OUTAGES = 5;

/** Conclusions from a generation's reports. */
export interface Findings {
  readonly faults: Faults;
  /** Members that linked to no other member, or to no member of another browser. */
  readonly cutOff: ReadonlySet<string>;
  /** Neighbours without a link. Empty unless the phase is LINKING. */
  readonly down: Pairs;
}

/**
 * Evaluates a generation's reports. In LINKING, `isDeadline` means that the time is over: if
 * neither end of a link has reported, the link counts as failed.
 */
export function findingsOf(state: RoomState, isDeadline: boolean): Findings {
  return state.phase === 'LINKING' ? linkingFindings(state, isDeadline) : trainingFindings(state);
}

function linkingFindings(state: RoomState, isDeadline: boolean): Findings {
  const { ring, relayed, reports, complaints } = state;
  const names = (by: string, about: string): boolean => namesOf(complaints.get(by)).includes(about);
  const isSilent = (member: string): boolean => !reports.has(member) && !complaints.has(member);
  const edges = neighbours(ring).map(([a, b]) => {
    const ends = [a.member, b.member] as const;
    const areBothSilent = isDeadline && ends.every(isSilent);
    const isDown = names(a.member, b.member) || names(b.member, a.member) || areBothSilent;
    return { a, b, ends, isDown };
  });
  const cutOff = new Set(
    ring
      .filter((one) => {
        const own = edges.filter(({ ends }) => ends.includes(one.member));
        // Tabs of one browser reach each other without a network, so only links to other browsers
        // test the network.
        const foreign = edges.filter(
          ({ a, b }) => a.browser !== b.browser && [a.browser, b.browser].includes(one.browser),
        );
        return [own, foreign].some((some) => some.length > 0 && some.every(({ isDown }) => isDown));
      })
      .map(({ member }) => member),
  );
  const faults: Fault[] = [...cutOff].map((member) => faultOf(state, 'cutOff', member, member));
  const down = edges.filter(({ isDown }) => isDown).map(({ ends }) => ends);
  const isRelayDown = relayed.every((pair) => includesPair(down, pair));
  for (const { ends, isDown } of edges) {
    if (!isDown) continue;
    for (const [by, about] of [ends, [ends[1], ends[0]] as const]) {
      if (!names(by, about) && !(isDeadline && isSilent(by))) continue;
      // A report is not credible if its reporter linked to no member. If no pair could link over
      // the relay, neither end of a relayed link is at fault.
      const isCredible = !cutOff.has(by) && !(isRelayDown && includesPair(relayed, ends));
      faults.push({ ...faultOf(state, 'unlinked', by, about), isCredible });
    }
  }
  return { faults: [...faults, ...loneFaults(state, isDeadline)], cutOff, down };
}

function trainingFindings(state: RoomState): Findings {
  const { ring, complaints, members } = state;
  const here = new Set(members.map(({ member }) => member));
  const lates: Fault[] = [];
  const breaks: Fault[] = [];
  for (const [by, complaint] of complaints) {
    const list = complaint.type === 'late' ? lates : breaks;
    for (const about of namesOf(complaint)) {
      if (here.has(about)) list.push(faultOf(state, complaint.type === 'late' ? 'late' : 'broken', by, about));
    }
  }
  const pairs = new Set(breaks.map(({ by, about }) => edgeKey(by, about)));
  const most = neighbours(ring).length;
  const lone = loneFaults(state, false);
  const late = new Set(lates.map(({ about }) => about));
  const reporters = ring.filter(({ member }) => complaints.has(member));
  // Suppose that each rank has either complained or been named as late, and no rank both. Then the
  // ranks that complained without naming a rank (`failed`) probably waited for the late ranks, too.
  // Their complaints count as reports about the late ranks, but as reports that are not credible.
  if (reporters.length > 1 && ring.every(({ member }) => complaints.has(member) !== late.has(member))) {
    for (const { member } of reporters) {
      if (complaints.get(member)?.type !== 'failed') continue;
      for (const about of late) lates.push({ ...faultOf(state, 'late', member, about), isCredible: false });
    }
  }
  // If most links break in one generation, the network failed, and no single rank is at fault.
  const isGeneral = pairs.size >= most || (ring.length > 3 && pairs.size > most / 2);
  const isVague = [...complaints.values()].every(({ type }) => type === 'failed');
  // In a ring of two ranks it is unknown which of them was late, so this also counts as an outage.
  const isBetweenTwo = ring.length === 2 && lates.length > 0;
  const isOutage = isBetweenTwo || (lone.length === 0 && ((isGeneral && breaks.length > 0) || isVague));
  const [between] = isBetweenTwo ? lates : [];
  const outage = isOutage ? [faultOf(state, 'outage', between?.by ?? '', between?.about ?? '')] : [];
  const alone = isBetweenTwo ? [] : lone;
  return { faults: [...lates, ...(isGeneral ? [] : breaks), ...alone, ...outage], cutOff: new Set(), down: [] };
}

/**
 * Returns the fault `alone` if only one rank noticed that the generation failed. If a rank has
 * named a peer, ranks that complained without naming one do not count, because they were only
 * informed that the generation ended. But they confirm the complaint of the one rank if this
 * complaint names as late exactly the ranks that did not complain.
 */
function loneFaults(state: RoomState, isDeadline: boolean): Fault[] {
  const { complaints, ring, reports, members, phase } = state;
  const naming = [...complaints.keys()].filter((member) => complaints.get(member)!.type !== 'failed');
  const [lone, ...others] = ring.length > 2 && naming.length > 0 ? naming : complaints.keys();
  if (lone === undefined || others.length > 0 || ring.length < 2) return [];
  const complaint = complaints.get(lone);
  const named = namesOf(complaint);
  const haveAllOthersFailed = ring.every(({ member }) => complaints.has(member) !== named.includes(member));
  if (complaint?.type === 'late' && complaints.size > 1 && haveAllOthersFailed) return [];
  const isGone = named.some((peer) => !members.some(({ member }) => member === peer));
  // The report is confirmed if a peer that it names has not linked before the deadline either.
  const isShared = phase === 'LINKING' && isDeadline && !named.every((peer) => reports.has(peer));
  return isGone || isShared ? [] : [faultOf(state, 'alone', lone, lone)];
}

function faultOf(state: RoomState, kind: Fault['kind'], by: string, about: string): Fault {
  const [byBrowser, aboutBrowser] = [browserOf(state, by), browserOf(state, about)];
  return { kind, generation: state.generation, by, about, byBrowser, aboutBrowser, isCredible: true, age: 0 };
}

export function namesOf(complaint: Complaint | undefined): readonly string[] {
  return complaint === undefined || complaint.type === 'failed' ? [] : complaint.peers;
}

/** Returns the record one ageing interval later, without forgotten faults. */
export function aged(faults: Faults): Faults {
  return faults.map((fault) => ({ ...fault, age: fault.age + 1 })).filter(({ age }) => age < FORGOTTEN);
}

/**
 * Returns for each pair the number of recent generations in which the link of the pair broke or
 * failed to open. A link that failed to open counts only if the report is credible.
 */
export function breaksOf(faults: Faults): Breaks {
  const generations = new Map<string, Set<number>>();
  for (const { kind, generation, by, about, isCredible, age } of faults) {
    if ((kind !== 'broken' && !(kind === 'unlinked' && isCredible)) || age >= PAST) continue;
    const key = edgeKey(by, about);
    generations.set(key, (generations.get(key) ?? new Set()).add(generation));
  }
  return new Map([...generations].map(([key, failed]) => [key, failed.size]));
}

/**
 * Returns the pairs whose link failed to open. The members of such a pair should not be neighbours
 * if another order exists.
 */
export function unlinkedPairs(faults: Faults): Pairs {
  const pairs = new Map<string, readonly [string, string]>();
  for (const { kind, by, about } of faults) if (kind === 'unlinked') pairs.set(edgeKey(by, about), [by, about]);
  return [...pairs.values()];
}

/**
 * Returns the number of generations in which at least `accusers` other members waited for this
 * member until their deadline.
 */
export function timesLate(faults: Faults, member: string, accusers = 1): number {
  const byGeneration = new Map<number, Set<string>>();
  for (const { kind, generation, by, about } of faults) {
    if (kind === 'late' && about === member)
      byGeneration.set(generation, (byGeneration.get(generation) ?? new Set()).add(by));
  }
  return [...byGeneration.values()].filter(({ size }) => size >= accusers).length;
}

/** Returns the members that linked to no other member in their latest attempt. */
export function suspectsOf(faults: Faults): ReadonlySet<string> {
  return new Set(faults.flatMap(({ kind, about }) => (kind === 'cutOff' ? [about] : [])));
}

/**
 * Whether there is enough evidence to suspend a member because of its links: two other members
 * reported the member, the member reported two others, or it and another member reported each
 * other.
 */
export function isProven(faults: Faults, member: string): boolean {
  const against = accusationsOf(faults, new Set([member]));
  const own = linkFaults(faults).filter(({ by }) => by === member);
  const accused = witnesses(own.map(({ generation, about, aboutBrowser }) => [generation, about, aboutBrowser]));
  return (
    countAccusers(against) >= MIN_ACCUSERS ||
    accused >= MIN_ACCUSERS ||
    against.some(({ by }) => own.some(({ about }) => about === by))
  );
}

function linkFaults(faults: Faults): Faults {
  return faults.filter(({ kind, isCredible }) => (kind === 'unlinked' || kind === 'broken') && isCredible);
}

/** Returns the reports of other members about their links to these members. */
function accusationsOf(faults: Faults, accused: ReadonlySet<string>): Faults {
  return linkFaults(faults).filter(({ by, about }) => accused.has(about) && !accused.has(by));
}

function countAccusers(faults: Faults): number {
  return witnesses(faults.map(({ generation, by, byBrowser }) => [generation, by, byBrowser]));
}

function countGenerations(faults: Faults): number {
  return new Set(faults.map(({ generation }) => generation)).size;
}

/**
 * Counts the different members in `[generation, member, browser]` entries. For each browser, only
 * one generation counts: the one with the most members of this browser. So a tab that is closed and
 * opened again does not count twice.
 */
function witnesses(entries: readonly (readonly [number, string, string])[]): number {
  const tabs = new Map<string, Map<number, Set<string>>>();
  for (const [generation, member, browser] of entries) {
    const generations = tabs.get(browser) ?? new Map<number, Set<string>>();
    tabs.set(browser, generations.set(generation, (generations.get(generation) ?? new Set()).add(member)));
  }
  const most = [...tabs.values()].map((generations) => Math.max(...[...generations.values()].map(({ size }) => size)));
  return most.reduce((sum, size) => sum + size, 0);
}

/**
 * Returns which ranks to suspend after `generation` failed, and why. It chooses the worst rank,
 * ignores all reports by and about this rank, and repeats this until no rank is left to suspend.
 * The ignored reports could make other ranks look faulty, too.
 */
export function membersToSuspend(
  ring: readonly RosterEntry[],
  record: Faults,
  generation: number,
): ReadonlyMap<string, Reason> {
  const suspended = new Map<string, Reason>();
  for (let faults = record; ; faults = withoutMembers(faults, suspended)) {
    const suspects = suspectsOf(faults);
    let worst: { group: ReadonlySet<string>; reason: Reason; weight: number } | null = null;
    for (const one of ring) {
      if (suspended.has(one.member)) continue;
      // Tabs of one browser have the same network, so suspects of one browser are judged together.
      const group = new Set([one.member]);
      for (const { member, browser } of ring) {
        if (browser === one.browser && suspects.has(member) && suspects.has(one.member)) group.add(member);
      }
      const verdict = verdictOn(one.member, group, faults, { generation, worldSize: ring.length });
      // If two ranks have equal weight, the later one in the ring is chosen.
      if (verdict !== null && verdict.weight >= (worst?.weight ?? 0)) {
        worst = { ...verdict, group: verdict.reason === 'unreachable' ? group : new Set([one.member]) };
      }
    }
    if (worst === null) return suspended;
    for (const member of worst.group) suspended.set(member, worst.reason);
  }
}

function verdictOn(
  member: string,
  group: ReadonlySet<string>,
  faults: Faults,
  { generation, worldSize }: { generation: number; worldSize: number },
): { reason: Reason; weight: number } | null {
  const about = faults.filter((fault) => fault.about === member);
  const ofKind = (kind: Fault['kind']): Faults => about.filter((fault) => fault.kind === kind);
  const against = countAccusers(accusationsOf(faults, group));
  if (countGenerations(ofKind('cutOff')) >= CUT_OFF_GENERATIONS && against >= MIN_ACCUSERS) {
    return { reason: 'unreachable', weight: against };
  }
  const own = countAccusers(accusationsOf(faults, new Set([member])));
  if (own >= UNSTABLE_ACCUSERS) return { reason: 'unstable', weight: own };
  const lates = ofKind('late');
  const late = countAccusers(lates);
  const now = countAccusers(lates.filter((fault) => fault.generation === generation && fault.isCredible));
  if (now > worldSize / 2 || (late >= MIN_ACCUSERS && countGenerations(lates) > 1))
    return { reason: 'late', weight: late };
  const alone = countGenerations(ofKind('alone'));
  return alone >= MAX_ALONE ? { reason: 'alone', weight: alone } : null;
}

/** Returns the record without reports by or about these members. */
export function withoutMembers(faults: Faults, which: { has(member: string): boolean }): Faults {
  return faults.filter(({ by, about }) => !which.has(by) && !which.has(about));
}

/** Returns the record without outages. */
export function withoutOutages(faults: Faults): Faults {
  return faults.filter(({ kind }) => kind !== 'outage');
}

/** Returns a record in which these members are no longer suspects, because they have linked. */
export function cleared(faults: Faults, which: { has(member: string): boolean }): Faults {
  return faults.filter(({ kind, about }) => kind !== 'cutOff' || !which.has(about));
}
