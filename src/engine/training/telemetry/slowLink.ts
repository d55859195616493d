/**
 * Whether this rank's link to its right neighbour holds up the ring: found from what ranks tell
 * each other of chunks' times, and told to the server, which can choose another order.
 */
import { rightOf } from '../../../collectives/plans/ringPlan.ts';
import type { EngineEvent } from '../../../protocol/events.ts';
import { findStragglers } from '../../../telemetry/stragglers.ts';

/**
 * How many times as long as over the others a chunk has to take: another order costs all ranks a
 * moment and a few links, and on one network links differ by less.
 */
const RATIO = 3;
/**
 * Exchanges of telemetry in a row, each of the means since the last: what lasts for one may be a
 * download.
 */
const LASTING = 2;

type Of<Type extends EngineEvent['type']> = Extract<EngineEvent, { type: Type }>;

export class SlowLink {
  #generation: Of<'generation'> | null = null;
  #statistics: Of<'ranks'>['ranks'] = [];
  #times = 0;

  /**
   * Takes the run's events in order. @returns the link, once in each generation in which it is
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
    const found = findStragglers(this.#statistics, event.ranks).find((one) => one.kind === 'link' && one.from === rank);
    this.#times = found && found.ratio >= RATIO ? this.#times + 1 : 0;
    return this.#times === LASTING ? { generation, peer: members[rightOf(rank, members.length)]!.member } : null;
  }
}
