/** Whether the server of this page also serves IDX files. */
import { signal, type ReadonlySignal } from '@preact/signals';

/** The server's folder, as a job's data URL. */
export const SERVER_DATA = '/data/';

const found = signal(false);
export const serverHasData: ReadonlySignal<boolean> = found;

/** Asks once. A server without data lists none; another server may answer 404 or its start page. */
export async function askForServerData(): Promise<void> {
  try {
    const response = await fetch(`${SERVER_DATA}index.json`);
    const names: unknown = response.ok ? await response.json() : [];
    found.value = Array.isArray(names) && names.length > 0;
  } catch {
    found.value = false;
  }
}
