/**
 * Finds problems in the flight recordings of several ranks: ranks that are missing from a
 * collective, and ranks that called different collectives. It follows the flight recorder analyzer
 * of torch (https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html). Pure.
 */
import type { FlightRecord, FlightRecording } from '../../protocol/flightRecording.ts';

export type CollectiveStateOnRank = FlightRecord['state'] | 'absent' | 'unknown';

interface Collective {
  group: number;
  seq: number;
  call: string;
  algorithm: string;
  /**
   * The longest duration of the collective on a rank with a recording; `null` if it has not ended
   * on all of these ranks.
   */
  tookMs: number | null;
  /**
   * The state of the collective on each rank of the world; `unknown` if the recordings do not show
   * it.
   */
  states: readonly CollectiveStateOnRank[];
  /** The different calls of the ranks. There is more than one if the ranks disagree. */
  calls: readonly string[];
}

export type CollectiveTrouble =
  | { kind: 'missing'; call: string; ranks: number[]; waiting: number[] }
  | { kind: 'stuck'; call: string; ranks: number[] }
  | { kind: 'differs'; seq: number; calls: readonly string[] };

/** Returns all recorded collectives, newest first. */
export function recordedCollectives(recordings: readonly FlightRecording[]): Collective[] {
  const keys = new Map<string, { group: number; seq: number }>();
  const byRank = recordings.map(({ rank, records }) => {
    const own = new Map<string, FlightRecord>();
    for (const record of records) {
      if (record.kind !== 'collective' || record.seq === null) continue;
      const key = `${record.group}/${record.seq}`;
      own.set(key, record);
      keys.set(key, { group: record.group, seq: record.seq });
    }
    const all = [...own.values()];
    return { rank, own, oldest: oldestOf(all), newest: newestOf(all) };
  });
  const worldSize = recordings[0]?.worldSize ?? 0;
  const done = newestOf(byRank.flatMap(({ own }) => [...own.values()].filter(({ state }) => state === 'completed')));
  return [...keys.values()]
    .sort((a, b) => b.seq - a.seq || b.group - a.group)
    .map(({ group, seq }) => {
      const key = `${group}/${seq}`;
      const states = Array.from({ length: worldSize }, (): CollectiveStateOnRank => 'unknown');
      for (const { rank, own, oldest, newest } of byRank) {
        // If a recording lacks a collective, its rank is reported as missing only if the recording
        // covers the time of the collective. Two cases are excluded. If the collective is before
        // `oldest`, the recorder may have overwritten it. If at least one rank has completed a
        // collective after `newest`, the recording may have been made before the collective.
        const isOver = seq >= (oldest.get(group) ?? 0) && (newest.get(group) ?? -1) >= (done.get(group) ?? -1);
        // A rank without records of a group is perhaps not a member of this group. The world (group
        // 0) is the only group that has every rank as a member.
        const isIts = group === 0 || oldest.has(group);
        states[rank] = own.get(key)?.state ?? (isOver && isIts ? 'absent' : 'unknown');
      }
      const records = byRank.flatMap(({ own }) => own.get(key) ?? []);
      const calls = [...new Set(records.map((one) => one.call))];
      const took = records.map(({ startedAt, endedAt }) =>
        startedAt === null || endedAt === null ? null : endedAt - startedAt,
      );
      const tookMs = took.some((one) => one === null) ? null : Math.max(...(took as number[]));
      return { group, seq, call: records[0]!.call, algorithm: records[0]!.algorithm, tookMs, states, calls };
    });
}

/** Returns the highest sequence number in each group. */
function newestOf(records: readonly FlightRecord[]): Map<number, number> {
  const newest = new Map<number, number>();
  for (const { group, seq } of records) newest.set(group, Math.max(seq ?? -1, newest.get(group) ?? -1));
  return newest;
}

function oldestOf(records: readonly FlightRecord[]): Map<number, number> {
  const oldest = new Map<number, number>();
  for (const { group, seq } of records) oldest.set(group, Math.min(seq ?? Infinity, oldest.get(group) ?? Infinity));
  return oldest;
}

/**
 * Returns the first problem of each kind in each group. Later problems of that kind usually follow
 * from it.
 */
export function findCollectiveTroubles(collectives: readonly Collective[]): CollectiveTrouble[] {
  const found: CollectiveTrouble[] = [];
  const seen = new Set<string>();
  const report = (group: number, trouble: CollectiveTrouble): void => {
    if (seen.has(`${group}/${trouble.kind}`)) return;
    seen.add(`${group}/${trouble.kind}`);
    found.push(trouble);
  };
  for (const { group, seq, call, calls, states } of collectives.toReversed()) {
    const ranks = (...wanted: CollectiveStateOnRank[]): number[] =>
      states.flatMap((state, rank) => (wanted.includes(state) ? rank : []));
    const name = `${call} #${seq}`;
    const missing = ranks('absent', 'scheduled');
    const open = ranks('started', 'failed');
    if (calls.length > 1) report(group, { kind: 'differs', seq, calls });
    // If one rank has completed a collective, all ranks have called it. If a recording lacks this
    // call, the recording was made before the call.
    if (calls.length > 1 || states.includes('completed') || open.length === 0) continue;
    if (missing.length > 0) report(group, { kind: 'missing', call: name, ranks: missing, waiting: open });
    else if (!states.includes('unknown')) report(group, { kind: 'stuck', call: name, ranks: open });
  }
  return found;
}

/** Returns the ranks without a recording. */
export function ranksWithoutRecording(recordings: readonly FlightRecording[]): number[] {
  const there = new Set(recordings.map(({ rank }) => rank));
  return Array.from({ length: recordings[0]?.worldSize ?? 0 }, (_, rank) => rank).filter((rank) => !there.has(rank));
}

/**
 * Returns whether a recording can be shown together with `others`. All recordings must be from the
 * same generation, and from different ranks.
 */
export function canShowTogether(recording: FlightRecording, others: readonly FlightRecording[]): boolean {
  return others.every(
    ({ rank, worldSize, generation }) =>
      worldSize === recording.worldSize && generation === recording.generation && rank !== recording.rank,
  );
}
