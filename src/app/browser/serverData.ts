/** Finds out whether the server of this page also serves data files. */
import { signal, type ReadonlySignal } from '@preact/signals';

/** The address of the data folder of the server, which a job can use as its data source. */
export const SERVER_DATA = '/data/';

const found = signal(false);
export const serverHasData: ReadonlySignal<boolean> = found;

/**
 * Requests the list of data files and sets `serverHasData`. A server without data sends an empty
 * list. A server of another kind may answer 404 or send its start page, which also means no data.
 */
export async function askForServerData(): Promise<void> {
  try {
    const response = await fetch(`${SERVER_DATA}index.json`);
    const names: unknown = response.ok ? await response.json() : [];
    found.value = Array.isArray(names) && names.length > 0;
  } catch {
    found.value = false;
  }
}
