/**
 * Evaluates the ranks' reports about each other. A report shows only one side, so it is compared
 * with three things: other reports about the same rank, the links of the reporter, and the number
 * of generations. The rule is in docs/adr/0016.
 */
import type { RosterEntry } from '../../src/protocol/room.ts';
import { edgeKey, includesPair, neighbours, type Breaks, type Pairs } from './edges.ts';
import type { Complaint, Fault, Faults, Reason } from './records.ts';
import { browserOf, type RoomState } from './state.ts';

/**
 * Number of consecutive LINKING phases in which a member linked to no other member. A single one
 * may be bad luck.
 */
const CUT_OFF_GENERATIONS = 2;
/**
 * Number of members that must report another member before it is suspended. No single member can
 * suspend another.
 */
export const MIN_ACCUSERS = 2;
/**
 * Number of members that report broken links to a member before it is suspended, even if it links
 * to others.
 */
const UNSTABLE_ACCUSERS = 4;
/**
 * Number of generations that a member ended alone before it is suspended: no other member confirmed
 * its reports.
 */
const MAX_ALONE = 5;
/**
 * Age from which a break no longer changes the order of the ring, and age at which a fault is
 * forgotten.
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
 * Evaluates a generation's reports. If `isDeadline`, ranks that have not reported by now are
 * treated as not linked.
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
        // Tabs of one browser reach each other without a network.
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
      // If the relay is down, neither of the two is at fault.
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
  // If every rank either complains or is reported as late, the late ranks have not noticed the
  // failure. Then each complaint of type `failed` also accuses them, but not credibly.
  if (reporters.length > 1 && ring.every(({ member }) => complaints.has(member) !== late.has(member))) {
    for (const { member } of reporters) {
      if (complaints.get(member)?.type !== 'failed') continue;
      for (const about of late) lates.push({ ...faultOf(state, 'late', member, about), isCredible: false });
    }
  }
  // If most links break at once, the network failed, and no single rank is at fault.
  const isGeneral = pairs.size >= most || (ring.length > 3 && pairs.size > most / 2);
  const isVague = [...complaints.values()].every(({ type }) => type === 'failed');
  // In a ring of two ranks it is unknown which of them was late.
  const isBetweenTwo = ring.length === 2 && lates.length > 0;
  const isOutage = isBetweenTwo || (lone.length === 0 && ((isGeneral && breaks.length > 0) || isVague));
  const [between] = isBetweenTwo ? lates : [];
  const outage = isOutage ? [faultOf(state, 'outage', between?.by ?? '', between?.about ?? '')] : [];
  const alone = isBetweenTwo ? [] : lone;
  return { faults: [...lates, ...(isGeneral ? [] : breaks), ...alone, ...outage], cutOff: new Set(), down: [] };
}

/**
 * Returns a fault of the rank that ended the generation while no other rank noticed a failure. The
 * other ranks only received the end of the generation, so their reports name no peer. Such reports
 * do not confirm the report of the first rank, unless it names as late exactly the ranks that
 * reported nothing.
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
  // If a named peer has not linked in time either, this confirms the report.
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

/** Returns the record after one more interval. */
export function aged(faults: Faults): Faults {
  return faults.map((fault) => ({ ...fault, age: fault.age + 1 })).filter(({ age }) => age < FORGOTTEN);
}

/**
 * Counts for each pair the recent generations in which its link broke, or failed to open although
 * the reporter linked to another member.
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
 * Returns the pairs whose link failed to open. They should not be neighbours if another order
 * exists.
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
 * Whether there is enough evidence to suspend a member because of its links. Enough are reports of
 * two other members, reports of the same link from both of its ends, or the member's own reports
 * about two others.
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
 * the generation with most of its members is counted: a tab that is opened again is no second
 * witness.
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
 * Returns which ranks to suspend after `generation` failed, and why. It finds the worst rank first
 * and then ignores its reports and the reports about it, because they may also explain the reports
 * about other ranks.
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
      // Tabs of one browser have the same network.
      const group = new Set([one.member]);
      for (const { member, browser } of ring) {
        if (browser === one.browser && suspects.has(member) && suspects.has(one.member)) group.add(member);
      }
      const verdict = verdictOn(one.member, group, faults, { generation, worldSize: ring.length });
      // If two ranks have equal weight, the later one is chosen.
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
