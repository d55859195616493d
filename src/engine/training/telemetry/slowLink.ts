/**
 * Detects whether this rank's link to its right neighbour slows the ring, from the chunk times that
 * ranks exchange. The server is informed and can choose another order.
 */
import { rightOf } from '../../../collectives/plans/ringPlan.ts';
import type { EngineEvent } from '../../../protocol/events.ts';
import { findStragglers } from '../../../telemetry/stragglers.ts';

/**
 * Least ratio of a chunk's time on this link to that on the others. Another order costs all ranks a
 * moment and a few links, and links of one network differ by less.
 */
const RATIO = 3;
/**
 * Consecutive exchanges of telemetry in which the link must be slow; each has the means since the
 * last one. A single one may be due to a download.
 */
const LASTING = 2;

type Of<Type extends EngineEvent['type']> = Extract<EngineEvent, { type: Type }>;

export class SlowLink {
  #generation: Of<'generation'> | null = null;
  #statistics: Of<'ranks'>['ranks'] = [];
  #times = 0;

  /**
   * Receives the run's events in order. @returns the link, once in each generation in which it is
   * slow.
   */
  observe(event: EngineEvent): { generation: number; peer: string } | null {
    if (event.type === 'generation') {
      this.#generation = event;
      this.#times = 0;
    }
    if (event.type === 'ranks') this.#statistics = event.ranks;
    if (event.type !== 'telemetry' || this.#generation === null) return null;
    const { generation, rank, members } = this.#generation;
    const found = findStragglers(this.#statistics, event.ranks).find(
      (finding) => finding.kind === 'link' && finding.from === rank,
    );
    this.#times = found && found.ratio >= RATIO ? this.#times + 1 : 0;
    return this.#times === LASTING ? { generation, peer: members[rightOf(rank, members.length)]!.member } : null;
  }
}
