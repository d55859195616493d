/**
 * The files that this tab's user has chosen, and this tab's part of the files that the ranks of a
 * job distribute.
 */
import type { EngineEvent } from '../../protocol/events.ts';
import type { ManifestFile } from '../../spec/fileManifest.ts';
import type { JobSpec } from '../../spec/job.ts';
import { DataError } from '../../util/errors.ts';
import { loadCodeModule } from '../loadCodeModule.ts';
import type { RoomMessage } from '../../protocol/control.ts';
import { SharedFileSlices } from './sharedFileSlices.ts';

interface ChosenFilesOptions {
  emit: (event: EngineEvent) => void;
  /** Returns the room that this tab is in, as the server last described it. */
  room: () => RoomMessage | null;
  isHost: () => boolean;
  /** Makes the chosen files the data of the room's job. */
  configure: (job: JobSpec) => void;
}

export class ChosenFiles {
  readonly #options: ChosenFilesOptions;
  #files: File[] = [];
  /** This tab's slices of distributed files, for the latest job that distributes any. */
  #shared: SharedFileSlices | null = null;

  constructor(options: ChosenFilesOptions) {
    this.#options = options;
  }

  get files(): File[] {
    return this.#files;
  }

  choose(files: File[]): void {
    this.#files = files;
    this.#options.emit({ type: 'preview', preview: null, problem: null });
  }

  /**
   * Returns this tab's slices of the files that the job's ranks distribute; `null` if the job has
   * no such files.
   */
  sharedOf({ data }: JobSpec): SharedFileSlices | null {
    if (data.kind !== 'shared') return null;
    if (!this.#shared?.isOf(data.files)) this.#shared = SharedFileSlices.awaited(data.files);
    return this.#shared;
  }

  /**
   * Emits the progress of reading the files, then a preview of them for `job`. Returns whether the
   * job can be trained on the files; `null` if the user has chosen other files in the meantime, or
   * if `isCurrent` returns false.
   *
   * @throws (rejects) CodeLoadError.
   */
  async inspect(job: JobSpec, isCurrent: () => boolean): Promise<boolean | null> {
    const files = this.#files;
    const isLatest = (): boolean => this.#files === files && isCurrent();
    let percent = -1;
    const { previewFiles } = await loadCodeModule(() => import('../../jobs/index.ts'));
    const found = await previewFiles(job, files, (loading) => {
      const reached = Math.floor((100 * loading.done) / loading.total);
      if (reached === percent || !isLatest()) return;
      percent = reached;
      this.#options.emit({ type: 'opening', loading });
    });
    if (!isLatest()) return null;
    this.#options.emit({ type: 'preview', ...found });
    return found.problem === null;
  }

  /**
   * Reads the files and makes them the data of the room's job, unless they already are.
   *
   * @param isRequested whether the user has chosen the files for this purpose. If not, files that
   *   cannot become the job's data are ignored without an error.
   * @throws (rejects) DataError if the files cannot be read, or if `isRequested` is true and a run
   *   with other files is in progress.
   */
  async share(isRequested: boolean): Promise<void> {
    const files = this.#files;
    const total = files.reduce((sum, { size }) => sum + size, 0);
    const report = (bytes: number): void => {
      if (this.#files === files) this.#options.emit({ type: 'reading', bytes, total });
    };
    try {
      report(0);
      const shared = await SharedFileSlices.chosen(files, report);
      const room = this.#options.room();
      if (this.#files !== files || room?.job.data.kind !== 'shared') return;
      if (this.#adopt(shared, room, room.job.data.files, isRequested)) report(total);
    } catch (error) {
      if (this.#files === files) throw error;
    }
  }

  /**
   * Makes the files in `shared` the data of the room's job if that is possible now. Returns whether
   * they are the job's data.
   */
  #adopt(shared: SharedFileSlices, room: RoomMessage, wanted: readonly ManifestFile[], isRequested: boolean): boolean {
    const isWanted = shared.isOf(wanted);
    if (!isWanted && !isRequested && !(room.phase === 'FORMING' && this.#options.isHost())) return false;
    if (!isWanted && room.phase !== 'FORMING') {
      const names = wanted.map(({ name }) => name).join(', ');
      throw new DataError(
        `The current run uses other files (${names}). Choose those files, or wait until the run has ended.`,
      );
    }
    this.#shared = shared;
    if (!isWanted) {
      this.#options.configure({ ...room.job, data: { kind: 'shared', files: [...shared.manifest] } });
    }
    return true;
  }
}
