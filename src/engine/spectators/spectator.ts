/**
 * A tab that only watches: makes the events of its page from what rank 0 tells of the run. A digest
 * may repeat what is known, and one may be missed; what has been shown is not shown again.
 */
import type { ServerMessage } from '../../protocol/control.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import { parseSpectatorUpdate, type SpectatorEvent } from '../../protocol/spectatorUpdate.ts';
import { RunOverError } from '../../util/errors.ts';

type Room = Extract<ServerMessage, { type: 'room' }>;
type Ended = Extract<ServerMessage, { type: 'ended' }>;

export class Spectator {
  readonly #emit: (event: EngineEvent) => void;
  /** What is shown; 0: nothing. */
  #run = 0;
  #generation = 0;
  /** The latest step shown of each kind of event. */
  readonly #shown = new Map<SpectatorEvent['type'], number>();
  /** What is shown once the run has finished. */
  #finished: Extract<SpectatorEvent, { type: 'finished' | 'lesson' }> | null = null;

  constructor(emit: (event: EngineEvent) => void) {
    this.#emit = emit;
  }

  receive(update: string): void {
    for (const event of parseSpectatorUpdate(update)) this.#show(event);
  }

  /** The end of the run may have been missed. */
  follow({ run, phase }: Room): void {
    const isOver = run > this.#run || (run === this.#run && phase === 'FORMING');
    if (isOver) this.end('stopped', 'This run was over when this tab found the room again.');
  }

  end(outcome: Ended['outcome'], message: string): void {
    if (this.#run === 0) return;
    const finished = this.#finished;
    this.#run = 0;
    this.#finished = null;
    if (outcome === 'finished' && finished) this.#emit(finished);
    else this.#emit({ type: 'failed', name: RunOverError.name, message, fatal: false });
  }

  #show(event: SpectatorEvent): void {
    if (event.type === 'generation') return this.#begin(event);
    // Until it is known what all of it is about.
    if (this.#run === 0) return;
    if (event.type === 'finished') {
      this.#finished = event;
      return;
    }
    // A lesson's last word may be missed.
    if (event.type === 'lesson') this.#finished = { ...event, state: { ...event.state, isOver: true } };
    if ('step' in event) {
      if (event.step <= (this.#shown.get(event.type) ?? -1)) return;
      this.#shown.set(event.type, event.step);
    }
    this.#emit(event);
  }

  #begin(event: Extract<SpectatorEvent, { type: 'generation' }>): void {
    const { run, generation } = event;
    if (run === this.#run && generation === this.#generation) return;
    if (run !== this.#run) this.#shown.clear();
    this.#run = run;
    this.#generation = generation;
    this.#emit(event);
  }
}
