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
