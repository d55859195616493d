/**
 * The permission that a public page needs to reach machines of the local network
 * (https://wicg.github.io/local-network-access/). Chrome asks the user for it. Without it, tabs in
 * one network may be unable to reach each other, and WebRTC reports no reason.
 */
import { signal, type ReadonlySignal } from '@preact/signals';

/** The names of the permission, newest first. Browsers reject names that they do not know. */
const NAMES = ['local-network', 'local-network-access'];

/** Names of hosts in the local network, and private addresses (RFC 1918, 3927, 4193, 4291). */
const LOCAL_NAME = /^localhost$|\.(localhost|local)$/;
const LOCAL_IPV4 = /^(10|127|169\.254|172\.(1[6-9]|2\d|3[01])|192\.168)\.[\d.]+$/;
const LOCAL_IPV6 = /^\[(::1\]|f[cd]|fe[89ab])/;

/** The facts that decide whether a page needs the permission, and whether the page has it. */
export interface LocalNetworkPermissionFacts {
  permissions: Pick<Permissions, 'query'> | undefined;
  isSecure: boolean;
  /** The page's host name. */
  host: string;
}

/**
 * Calls `report` with the state of the permission, now and after each change. Nothing is reported
 * for a page from the local network, which does not need the permission, or for an insecure page,
 * which cannot have it.
 */
export async function watchLocalNetworkPermission(
  { permissions, isSecure, host }: LocalNetworkPermissionFacts,
  report: (state: PermissionState) => void,
): Promise<void> {
  if (permissions === undefined || !isSecure || isLocalHost(host)) return;
  for (const name of NAMES) {
    try {
      // TypeScript does not know these names yet.
      const status = await permissions.query({ name: name as PermissionName });
      const read = (): void => report(status.state);
      status.addEventListener('change', read);
      return read();
    } catch {
      // This browser does not know this name of the permission, so the next name is tried.
    }
  }
}

function isLocalHost(host: string): boolean {
  return [LOCAL_NAME, LOCAL_IPV4, LOCAL_IPV6].some((local) => local.test(host));
}

const state = signal<PermissionState | null>(null);
let watching: Promise<void> | null = null;

/** Resolves when {@link localNetworkPermission} is known. */
export function awaitLocalNetworkPermission(): Promise<void> {
  watching ??= watchLocalNetworkPermission(
    { permissions: navigator.permissions, isSecure: isSecureContext, host: location.hostname },
    (now) => (state.value = now),
  );
  return watching;
}

/**
 * Returns a signal with the state of the permission. The state is `null` if it is not known yet, or
 * if this page does not need the permission.
 */
export function localNetworkPermission(): ReadonlySignal<PermissionState | null> {
  void awaitLocalNetworkPermission();
  return state;
}
