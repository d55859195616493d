/** Detects the data files of this page's server, and loads its addresses. */
import { signal, type ReadonlySignal } from '@preact/signals';

/** The address of the data folder of the server, which a job can use as its data source. */
export const SERVER_DATA_PATH = '/data/';

const found = signal(false);
export const serverHasData: ReadonlySignal<boolean> = found;

const origins = signal<readonly string[]>([]);
/** The origins at which other machines reach the server; empty if they are unknown. */
export const reachableServerOrigins: ReadonlySignal<readonly string[]> = origins;

/** Requests the list of data files and sets `serverHasData`. */
export async function detectServerData(): Promise<void> {
  found.value = (await namesAt(`${SERVER_DATA_PATH}index.json`)).length > 0;
}

/**
 * Requests the origins at which other machines reach the server, and sets `reachableServerOrigins`.
 */
export async function loadReachableServerOrigins(): Promise<void> {
  const names = await namesAt('/origins.json');
  origins.value = names.filter((name): name is string => typeof name === 'string' && URL.canParse(name));
}

/**
 * Resolves with a list that the server sends. A server without data sends an empty list. Other
 * server software may answer 404 or send its start page; the list is then empty, too.
 */
async function namesAt(path: string): Promise<unknown[]> {
  try {
    const response = await fetch(path);
    const names: unknown = response.ok ? await response.json() : [];
    return Array.isArray(names) ? names : [];
  } catch {
    return [];
  }
}
