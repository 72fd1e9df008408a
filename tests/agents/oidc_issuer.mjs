// A real issuer on loopback: oidc-provider, with client credentials, resource indicators and JWT access tokens.
// node oidc_issuer.mjs PATH_OF_THE_PACKAGE; the issuer's URL is its first line of output.
import { createServer } from "node:http";
import { generateKeyPairSync } from "node:crypto";
import { pathToFileURL } from "node:url";

const { default: Provider } = await import(pathToFileURL(process.argv[2]));
const key = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" });
const client = (client_id, team) => ({
  client_id,
  client_secret: "a-secret-of-the-test-0123456789abcdef",
  grant_types: ["client_credentials"],
  redirect_uris: [],
  response_types: [],
  id_token_signed_response_alg: "ES256",
  team,
});

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [client("robot", "builders"), client("stranger", "others")],
    extraClientMetadata: { properties: ["team"] },
    extraTokenClaims: (_ctx, token) => ({ groups: [token.client.team] }),
    jwks: { keys: [{ ...key, kid: "first", alg: "ES256", use: "sig" }] },
    scopes: ["shop", "shop:write"],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx, resource) => ({
          scope: "shop shop:write",
          audience: resource,
          accessTokenFormat: "jwt",
          accessTokenTTL: 300,
          jwt: { sign: { alg: "ES256" } },
        }),
      },
    },
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
