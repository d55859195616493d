/** GPU adapters of the browser. */

/** Matches the names of WebGPU adapters and WebGL renderers that compute in software. */
export const SOFTWARE_RENDERER = /swiftshader|llvmpipe|software|basic render/i;

/** After this many requests without an adapter, the browser is taken to have none. */
const REQUESTS = 3;

/**
 * Returns the browser's GPU adapter, or `null` if the browser has no adapter. Chromium answers with
 * `null` while its GPU process starts or restarts, and offers the adapter at the next request (seen
 * with Chromium 156 on an NVIDIA H100). So the request is repeated after `null`.
 */
export async function requestAdapter(gpu: GPU, options?: GPURequestAdapterOptions): Promise<GPUAdapter | null> {
  for (let request = 1; request < REQUESTS; request += 1) {
    const adapter = await gpu.requestAdapter(options);
    if (adapter !== null) return adapter;
  }
  return gpu.requestAdapter(options);
}

/** What browsers tell about an adapter. Each fills in different fields. */
type AdapterFields = Pick<GPUAdapterInfo, 'description' | 'vendor' | 'architecture' | 'isFallbackAdapter'>;

/**
 * Returns a name of the adapter for display. The name of an adapter that computes in software
 * matches {@link SOFTWARE_RENDERER}.
 */
export function adapterDisplayName(info: AdapterFields): string {
  const name = info.description || [info.vendor, info.architecture].filter(Boolean).join(' ') || 'WebGPU';
  const isNamed = !info.isFallbackAdapter || SOFTWARE_RENDERER.test(name);
  return (isNamed ? name : `${name} (software)`).slice(0, 200);
}

/** Whether a device is known to compute in software. Older browsers do not tell. */
export function computesInSoftware({ adapterInfo }: { adapterInfo?: AdapterFields }): boolean {
  return adapterInfo !== undefined && SOFTWARE_RENDERER.test(adapterDisplayName(adapterInfo));
}
