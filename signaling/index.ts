export { isLoopback } from './http/address.ts';
export { DATA_PATH, listDataFiles } from './http/data.ts';
export { checkIceOptions, type IceOptions } from './ice.ts';
export { DEFAULT_LIMITS } from './limits.ts';
export { startSignaling, type SignalingOptions, type SignalingServer } from './server.ts';
export { fingerprint, readCertificate, selfSignedCertificate, type Certificate } from './http/tls.ts';
